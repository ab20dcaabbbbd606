#include <limits>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>

/// AnomalyMode names the forward call, and its line, that produced the first NaN.

namespace linnet::test {
namespace {

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const ValueError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("anomaly mode: a NaN in the forward pass") {
  const Tensor x = tensor({1, -1}, DType::float64);
  CHECK_NOTHROW(log(x));
  const AnomalyMode mode;
  CHECK(AnomalyMode::enabled());
  int line = 0;
  const std::string message = message_of([&] { line = __LINE__, exp(log(x)); });
  CHECK(message == fmt::format("log: produced a NaN (AnomalyMode), in op log (anomaly_test.cpp:{})", line));
}

TEST_CASE("anomaly mode: a NaN that only backward produces") {
  Tensor x = tensor({0, 4}, DType::float64).set_requires_grad();
  const AnomalyMode mode;
  const int line = __LINE__ + 1;
  const Tensor y = sqrt(x);
  const Tensor loss = sum(mul(y, tensor({0, 1}, DType::float64)));  // 0 · d√0 = 0 · ∞
  const std::string message = message_of([&] { backward(loss); });
  CHECK_MESSAGE(message.starts_with("backward of sqrt: produced a NaN (AnomalyMode), in "), message);
  CHECK_MESSAGE(message.ends_with(fmt::format("(anomaly_test.cpp:{})", line)), message);
}

TEST_CASE("anomaly mode: infinities that are close are no NaN") {
  const AnomalyMode mode;
  const Tensor x = tensor({std::numeric_limits<double>::infinity(), 1}, DType::float64);
  CHECK(allclose(x, x));
  CHECK_FALSE(allclose(x, -x));
  CHECK(isclose(x, tensor({1}, DType::float64)).to_vector<bool>() == std::vector<bool>{false, true});
}

TEST_CASE("anomaly mode: ends with its scope, and lets numbers pass") {
  {
    const AnomalyMode outer;
    {
      const AnomalyMode inner;
    }
    CHECK(AnomalyMode::enabled());
    Tensor x = tensor({2}, DType::float64).set_requires_grad();
    CHECK_NOTHROW(backward(sum(log(x))));
  }
  CHECK_FALSE(AnomalyMode::enabled());
}

}  // namespace linnet::test
