#include <linnet/core/error.h>

#include <functional>
#include <regex>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/parallel/parallel.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/support/files.h"

/// Compares error messages with tests/core/messages.txt. If a message changed on purpose, replace that file by the
/// text that the test prints.

namespace linnet::test {
namespace {

struct Mistake {
  std::string name;
  std::function<void()> make;
};

Tensor leaf() { return tensor({1, 2}, DType::float64).set_requires_grad(); }

/// One per line of messages.txt, in its order.
std::vector<Mistake> mistakes() {
  static const Tensor x = zeros({2, 3});
  return {
      {"shapes that do not broadcast", [] { add(x, zeros({2, 4})); }},
      {"operator", [] { x + zeros({5, 1, 4}); }},
      {"two dtypes", [] { mul(x, zeros({3}, DType::float64)); }},
      {"integers where floats are needed", [] { exp(zeros({3}, DType::int64)); }},
      {"undefined tensor", [] { Tensor().reshape({1}); }},
      {"undefined tensor to another dtype", [] { Tensor().to(DType::float64); }},
      {"undefined tensor to a device", [] { Tensor().to(Device::cpu); }},
      {"undefined tensor made contiguous", [] { Tensor().contiguous(); }},
      {"undefined tensor detached", [] { Tensor().detach(); }},
      {"inner dimensions", [] { matmul(zeros({32, 784}), zeros({10, 784})); }},
      {"dim out of range", [] { x.transpose(0, 2); }},
      {"dim of a rank-0 tensor", [] { x.select(0, 0).select(0, 0).select(0, 0); }},
      {"reshape", [] { x.reshape({4, 2}); }},
      {"reshape with two unknown sizes", [] { x.reshape({-1, -1}); }},
      {"permute", [] { x.permute({0, 0}); }},
      {"narrow", [] { x.narrow(1, 2, 2); }},
      {"select", [] { x.select(0, -3); }},
      {"slice", [] { x.slice(0, 0, 2, 0); }},
      {"squeeze", [] { x.squeeze(1); }},
      {"expand", [] { x.expand({2, 6}); }},
      {"split", [] { x.split(0); }},
      {"item of many", [] { x.item<float>(); }},
      {"data of another dtype", [] { x.data<int64_t>(); }},
      {"data of a transpose", [] { x.transpose(0, 1).data<float>(); }},
      {"writing data of another dtype", [] { Tensor(x).mutable_data<double>(); }},
      {"negative size", [] { zeros({2, -3}); }},
      {"more bytes than there can be", [] { zeros({int64_t{1} << 40, int64_t{1} << 40}); }},
      {"memory of a negative size", [] { from_memory<float>(nullptr, {-1}, nullptr); }},
      {"bfloat16 on the CPU", [] { zeros({2}, DType::bfloat16); }},
      {"conversion to bfloat16 on the CPU", [] { x.to(DType::bfloat16); }},
      {"in-place edit of a leaf", [] { leaf().fill_(0); }},
      {"in-place copy from a leaf", [] { zeros({2}).copy_(leaf()); }},
      {"assignment to a copy", [] { x.clone() = 1; }},
      {"gradient of integers", [] { zeros({2}, DType::int64).set_requires_grad(); }},
      {"requires_grad of a result", [] { exp(leaf()).set_requires_grad(); }},
      {"hook without gradient", [] { Tensor(x).register_hook([](const Tensor& g) { return g; }); }},
      {"loss with two elements", [] { backward(exp(leaf())); }},
      {"loss without history", [] { backward(scalar(1)); }},
      {"gradient of another shape", [] { backward(exp(leaf()), {.grad = zeros({3}, DType::float64)}); }},
      {"second backward",
       [] {
         const Tensor y = exp(leaf());
         backward(y, {.grad = y.detach().clone()});
         backward(y, {.grad = y.detach().clone()});
       }},
      {"edited saved tensor",
       [] {
         Tensor factor = ones({2}, DType::float64);
         const Tensor y = mul(leaf(), factor);
         factor.fill_(2);
         backward(y, {.grad = ones({2}, DType::float64)});
       }},
      {"unused input", [] { grad({exp(leaf())}, {leaf()}, {.grad_outputs = {ones({2}, DType::float64)}}); }},
      {"grad of an input without gradient",
       [] { grad({leaf()}, {x}, {.grad_outputs = {ones({2}, DType::float64)}}); }},
      {"floating result without a gradient",
       [] {
         const Tensor input = leaf();
         Op op("nearest", Where{}, {input});
         op.non_differentiable(input.detach(), "it is a step function");
       }},
      {"number of threads", [] { set_num_threads(0); }},
      {"number of threads inside a loop", [] { parallel_tasks(2, [](int64_t) { set_num_threads(2); }); }},
      {"precision that a CPU has not", [] { set_precision(Precision::tf32, Device::cpu); }},
      {"unfinished op", [] { Op op("forgetful", Where{}, {x}); }},
  };
}

/// The message of the error, without the line, which changes with every edit of this file.
std::string message_of(const Mistake& mistake) {
  try {
    mistake.make();
  } catch (const Error& error) {
    return std::regex_replace(std::string(error.what()), std::regex(R"(\(errors_test\.cpp:\d+\))"), "(here)");
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("errors: the texts of typical mistakes") {
  std::string all;
  for (const Mistake& mistake : mistakes()) all += mistake.name + "\n    " + message_of(mistake) + "\n";
  const bool as_expected = all == read_bytes(LINNET_SOURCE_DIR "/tests/core/messages.txt");
  CHECK_MESSAGE(as_expected, "the texts are now:\n", all);
}

TEST_CASE("errors: name the user's call, not the one inside it, and its line") {
  try {
    const Call outer("outer", Where("folder/file.cpp", 7));
    const Call inner("inner", Where{});
    throw ShapeError("text");
  } catch (const ShapeError& error) {
    CHECK(std::string(error.what()) == "outer: text (file.cpp:7)");
  }
  CHECK(std::string(ShapeError("text").what()) == "text");
  CHECK(Call::outermost() == nullptr);
}

TEST_CASE("errors: one base class") {
  CHECK_THROWS_AS(zeros({-1}), Error);
  CHECK_THROWS_AS(zeros({-1}), std::runtime_error);
}

}  // namespace linnet::test
