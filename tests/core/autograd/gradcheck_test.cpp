#include <linnet/core/autograd/gradcheck.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/selection.h>
#include <linnet/ops/layers/normalisation.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/support/values.h"

namespace linnet::test {
namespace {

using List = std::vector<Tensor>;

Tensor leaf(const Shape& shape, uint64_t seed) { return uniform(shape, seed).set_requires_grad(); }

/// a · b, with a wrong gradient in the last element of b.
Tensor mul_with_mistake(const Tensor& a, const Tensor& b) {
  Op op("mul_with_mistake", Where{}, {a, b});
  return op.record(a.detach() * b.detach(), [a = op.save(a), b = op.save(b)](const Tensor& g) {
    Tensor wrong = ones(a.shape(), DType::float64);
    wrong.reshape({-1})[-1] = 1.5;
    return Grads{g * b(), g * a() * wrong};
  });
}

/// x², with the given backward.
Tensor square_with(const Tensor& x, std::function<Tensor(const Tensor& g, const Tensor& x)> backward) {
  Op op("square_with", Where{}, {x});
  return op.record(square(x.detach()),
                   [backward, x = op.save(x)](const Tensor& g) { return Grads{backward(g, x())}; });
}

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const AutogradError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("gradcheck: correct gradients, also of several inputs") {
  CHECK(gradcheck([](auto& in) { return exp(in[0]) * in[0]; }, {leaf({2, 3}, 1)}));
  const auto f = [](const List& in) { return matmul(in[0], in[1]) * sum(in[1] * in[2]) + in[2]; };
  const List inputs{leaf({2, 3}, 1), leaf({3, 4}, 2), uniform({4}, 3)};
  CHECK(gradcheck(f, inputs));
  CHECK(gradgradcheck(f, inputs));
  CHECK_FALSE(inputs[0].grad().defined());
  for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{1}}) {
    CHECK(gradcheck([](auto& in) { return sin(in[0]); }, {leaf(shape, 4)}));
    CHECK(gradgradcheck([](auto& in) { return sin(in[0]); }, {leaf(shape, 4)}));
  }
  CHECK(gradcheck([](auto& in) { return in[0].t() * 2; }, {leaf({3, 2}, 5).t()}));
  CHECK(
      gradcheck([](auto& in) { return take_along_dim(in[0], in[1]); }, {leaf({3}, 6), tensor({2, 0}, DType::int64)}));
}

TEST_CASE("gradcheck: within NoGrad too") {
  const NoGrad no_grad;
  CHECK(gradcheck([](auto& in) { return exp(in[0]); }, {leaf({2}, 1)}));
  CHECK(gradgradcheck([](auto& in) { return exp(in[0]); }, {leaf({2}, 1)}));
  CHECK_FALSE(grad_enabled());
}

TEST_CASE("gradcheck: a wrong gradient is named by its input, the elements and both values") {
  const auto f = [](const List& in) { return mul_with_mistake(in[0], in[2]); };
  const List inputs{tensor({{1, 2}, {3, 4}}, DType::float64).set_requires_grad(), ones({1}), leaf({2, 2}, 1)};
  const std::string message = message_of([&] { gradcheck(f, inputs, {}, {"a.cpp", 5}); });
  const std::string begin =
      "gradcheck: the derivative of the result at [1, 1] by input 2 at [1, 1] is 6 by backward and ";
  CHECK(message.substr(0, begin.size()) == begin);
  CHECK(std::stod(message.substr(begin.size())) == doctest::Approx(4).epsilon(1e-6));
  CHECK(message.ends_with(" by central differences (a.cpp:5)"));
  CHECK_FALSE(gradcheck(f, inputs, {.raise_exception = false}));
}

TEST_CASE("gradcheck: a backward that ignores its argument, and a second derivative that is missing, are found") {
  const List x{leaf({}, 1)};
  CHECK_FALSE(gradcheck([](auto& in) { return square_with(in[0], [](auto&, auto& at) { return at * 2; }); }, x,
                        {.raise_exception = false}));
  const auto detaches = [](const List& in) {
    return square_with(in[0], [](auto& g, auto& at) { return g * at.detach() * 2; });
  };
  CHECK(gradcheck(detaches, x));
  CHECK(message_of([&] {
          gradgradcheck(detaches, x);
        }).starts_with("gradgradcheck: the derivative of the gradient of input 0 at [] by input 0 at [] is 0 by"));
  const auto detaches_g = [](const List& in) {
    return square_with(in[0], [](auto& g, auto& at) { return g.detach() * at * 2; });
  };
  CHECK(gradcheck(detaches_g, x));
  CHECK(
      message_of([&] { gradgradcheck(detaches_g, x); })
          .starts_with("gradgradcheck: the derivative of the gradient of input 0 at [] by the gradient of the result "
                       "at [] is 0 by"));
  CHECK_FALSE(gradcheck([](auto& in) { return log(in[0] - 2); }, x, {.raise_exception = false}));  // NaN
}

TEST_CASE("gradcheck: eps, atol and rtol are PyTorch's") {
  // A relative error of 1e-4 is within rtol; with a smaller rtol and atol it fails.
  const auto f = [](const List& in) { return square_with(in[0], [](auto& g, auto& at) { return g * at * 2.0002; }); };
  const List x{tensor({3}, DType::float64).set_requires_grad()};
  CHECK(gradcheck(f, x));
  CHECK_FALSE(gradcheck(f, x, {.rtol = 1e-5, .raise_exception = false}));
  CHECK(gradcheck(f, x, {.atol = 1e-3, .rtol = 0}));
  CHECK_FALSE(gradcheck(f, x, {.atol = 1e-4, .rtol = 0, .raise_exception = false}));
  // The derivative of |x| at 0.1 is 1, and its difference over 0.1 ± 0.2 is 0.5.
  const auto g = [](const List& in) { return abs(in[0]); };
  const List near_kink{tensor({0.1}, DType::float64).set_requires_grad()};
  CHECK(gradcheck(g, near_kink));
  CHECK_FALSE(gradcheck(g, near_kink, {.eps = 0.2, .raise_exception = false}));
  // The other elements do not change while one is moved.
  CHECK(gradcheck([](auto& in) { return prod(in[0]); }, {leaf({3}, 1)}, {.eps = 0.5}));
}

TEST_CASE("gradcheck: what cannot be checked is refused") {
  const auto f = [](const List& in) { return exp(in[0]); };
  CHECK_THROWS_WITH_AS(
      gradcheck(f, {uniform({2}, 1)}, {}, {"a.cpp", 1}),
      "gradcheck: no input requires a gradient; call set_requires_grad() on those to check (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(
      gradgradcheck(f, {ones({2}).set_requires_grad()}, {}, {"a.cpp", 1}),
      "gradgradcheck: input 0 is float32, and differences need float64; convert it with to(DType::float64) (a.cpp:1)",
      DTypeError);
  CHECK_THROWS_WITH_AS(gradcheck([](auto& in) { return in[0] + ones({3}, DType::float64); }, {leaf({2}, 1)}),
                       doctest::Contains("add: shapes"), ShapeError);
  CHECK_THROWS_WITH_AS(gradgradcheck([](auto& in) { return layer_norm(in[0]); }, {leaf({2, 4}, 1)}),
                       doctest::Contains("for first derivatives only"), AutogradError);

  // The size of the result changes on one side of x, on both, or only between the sides and x itself.
  const auto selects = [](double x, const std::function<Tensor(const Tensor&)>& mask) {
    return std::pair([mask](const List& in) { return masked_select(square(in[0]), mask(in[0])); },
                     List{tensor({x, 1}, DType::float64).set_requires_grad()});
  };
  const auto [positive, near_0] = selects(1e-7, [](const Tensor& x) { return gt(x, 0); });
  const auto [not_0, at_0] = selects(0, [](const Tensor& x) { return gt(abs(x), 1e-9); });
  const auto [only_0, also_at_0] = selects(0, [](const Tensor& x) { return ge(abs(abs(x) - 1e-6), 1e-9); });
  const auto message = [](const char* name, int from, int to) {
    return fmt::format(
        "{}: f's result changes its shape within eps of the inputs, from [{}] to [{}], so it has no "
        "derivative there; check f at other inputs (a.cpp:1)",
        name, from, to);
  };
  CHECK_THROWS_WITH_AS(gradcheck(positive, near_0, {}, {"a.cpp", 1}), message("gradcheck", 2, 1).c_str(),
                       AutogradError);
  CHECK_THROWS_WITH_AS(gradgradcheck(positive, near_0, {}, {"a.cpp", 1}), message("gradgradcheck", 2, 1).c_str(),
                       AutogradError);
  CHECK_THROWS_WITH_AS(gradcheck(not_0, at_0, {}, {"a.cpp", 1}), message("gradcheck", 1, 2).c_str(), AutogradError);
  CHECK_THROWS_WITH_AS(gradcheck(only_0, also_at_0, {}, {"a.cpp", 1}), message("gradcheck", 2, 1).c_str(),
                       AutogradError);
  CHECK(gradcheck(positive, {leaf({4}, 1)}));
}

}  // namespace linnet::test
