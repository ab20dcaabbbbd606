#include "tests/support/gradient_check.h"

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/public_functions.h"
#include "tests/support/values.h"

/// Tests of check_gradients itself: it must find gradients that are wrong in typical ways.

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

/// x², with the given backward.
Tensor square_with(const Tensor& x, std::function<Tensor(const Tensor& g, const Tensor& x)> backward) {
  Op op("square_with", Where{}, {x});
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  backend(y).unary(Unary::square, detail::view(y), detail::view(x));
  return op.record(y, [backward, x = op.save(x)](const Tensor& g) { return Grads{backward(g, x())}; });
}

CheckResult check_square(std::function<Tensor(const Tensor& g, const Tensor& x)> backward, bool twice = false) {
  return check_gradients([&](const Inputs& in) { return square_with(in[0], backward); }, {uniform({3, 4}, 1)},
                         {.twice = twice});
}

/// a − b, whose gradient with respect to b is sign·g.
Tensor minus_with_sign(const Tensor& a, const Tensor& b, double sign) {
  Op op("minus_with_sign", Where{}, {a, b});
  Tensor y = Tensor::empty(a.shape(), a.dtype());
  backend(y).binary(Binary::sub, detail::view(y), detail::view(a), detail::view(b));
  return op.record(y, [sign](const Tensor& g) { return Grads{g, mul(g, sign)}; });
}

/// Whether `part` is in the message of the failure.
bool mentions(const CheckResult& result, const char* part) { return result.failure.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("gradient check: correct gradients pass, with a tenth of the allowed error") {
  const CheckResult result = check_square([](auto& g, auto& x) { return mul(mul(g, x), 2); }, true);
  CHECK_MESSAGE(result, result.failure);
  CHECK(result.worst < 0.1);
  CHECK(check_gradients([](const Inputs& in) { return minus_with_sign(in[0], in[1], -1); },
                        {uniform({2, 3}, 2), uniform({2, 3}, 3)}, {.twice = true}));
}

/// x·clamp(x + 3, 0, 6)/6, whose gradient beyond 3 is 2 where it should be 1.
Tensor wrong_hardswish(const Tensor& x) {
  Op op("wrong_hardswish", Where{}, {x});
  const Tensor y = x.detach() * clamp(x.detach() + 3, 0, 6) / 6;
  return op.record(y, [x = op.save(x)](const Tensor& g) {
    const Tensor inside = (2 * x() + 3) / 6;
    return Grads{g * where(x() < -3, 0, where(x() > 3, full_like(x(), 2), inside))};
  });
}

TEST_CASE("gradient check: a wrong gradient in a branch far from 0 is found by inputs that reach the branch") {
  const auto check = [](const Tensor& x) {
    return check_gradients([](const Inputs& in) { return wrong_hardswish(in[0]); }, {x});
  };
  CHECK(check(uniform({3, 4}, 1, -1.2, 1.2)));  // no input reaches the branch
  const CheckResult result = check(spread_over({.kinks = {-3, 3}}));
  CHECK_FALSE(result);
  CHECK(mentions(result, "gradient of input 0"));
}

TEST_CASE("gradient check: an omitted factor is found") {
  const CheckResult result = check_square([](auto& g, auto& x) { return mul(g, x); });
  CHECK_FALSE(result);
  CHECK(mentions(result, "gradient of input 0"));
}

TEST_CASE("gradient check: a relative error of 1e-5 is found") {
  CHECK_FALSE(check_square([](auto& g, auto& x) { return mul(mul(g, x), 2 * (1 + 1e-5)); }));
}

TEST_CASE("gradient check: a wrong sign in one input is found") {
  const CheckResult result = check_gradients([](const Inputs& in) { return minus_with_sign(in[0], in[1], 1); },
                                             {uniform({2, 3}, 2), uniform({2, 3}, 3)});
  CHECK_FALSE(result);
  CHECK(mentions(result, "gradient of input 1"));
}

TEST_CASE("gradient check: a cotangent that is ignored is found") {
  CHECK_FALSE(check_square([](auto&, auto& x) { return mul(x, 2); }));
}

TEST_CASE("gradient check: a missing gradient is found") {
  CHECK_FALSE(check_square([](auto&, auto&) { return Tensor(); }));
}

TEST_CASE("gradient check: a correct gradient with wrong second derivatives is found by `twice`") {
  const auto detaches_input = [](const Tensor& g, const Tensor& x) { return mul(mul(g, x.detach()), 2); };
  CHECK(check_square(detaches_input));
  const CheckResult result = check_square(detaches_input, true);
  CHECK_FALSE(result);
  CHECK(mentions(result, "second derivatives: gradient of input 0"));
}

TEST_CASE("gradient check: a kernel that ignores strides is found") {
  const auto ignores_strides = [](const Inputs& in) {
    const Tensor& x = in[0];
    Op op("ignores_strides", Where{}, {x});
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    backend(y).unary(Unary::square, detail::view(y),
                     detail::view(detail::as_strided(x, x.shape(), contiguous_strides(x.shape()), 0)));
    return op.record(y, [x = op.save(x)](const Tensor& g) { return Grads{mul(mul(g, x()), 2)}; });
  };
  const CheckResult result = check_gradients(ignores_strides, {uniform({3, 4}, 4)});
  CHECK_FALSE(result);
  CHECK(mentions(result, "result 0 (transposed)"));
}

TEST_CASE("gradient check: an element that is not finite is found") {
  CHECK_FALSE(check_gradients([](const Inputs& in) { return log(in[0]); }, {uniform({3}, 5, -2, -1)}));
}

TEST_CASE("gradient check: empty inputs and inputs of rank 0 pass") {
  for (const Shape& shape : {Shape{0, 3}, Shape{}, Shape{1, 1}}) {
    const CheckResult result =
        check_gradients([](const Inputs& in) { return sum(exp(in[0])); }, {uniform(shape, 6)}, {.twice = true});
    CHECK_MESSAGE(result, to_string(shape), ": ", result.failure);
  }
}

TEST_CASE("functions_in: the public functions that a header declares") {
  const char* header = R"(
    #pragma once
    /// calls other(x) sometimes
    namespace linnet {
    struct Options { double rate = 0; int f(int); };
    enum class Kind { a, b };
    using Map = std::vector<int>;
    /// Doc. spare(x)
    Tensor one(const Tensor& x, std::function<int(int)> f = {}, Where where = {});
    template <class T>
    Tensor two(const std::vector<T>& values) {
      return three(values);
    }
    Tensor operator+(const Tensor& a, const Tensor& b);
    std::vector<Tensor>
    four(int x);
    namespace detail { Tensor hidden(); }
    }  // namespace linnet
    namespace linnet::detail {
    Tensor hidden_too(const Tensor& x);
    }
  )";
  CHECK(functions_in(header) == std::set<std::string>{"one", "two", "four"});
}

}  // namespace linnet::test
