#include <linnet/core/autograd/tape.h>

#include <cmath>
#include <limits>

#include <doctest/doctest.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/leaf.h"
#include "tests/support/values.h"

namespace linnet::test {

TEST_CASE("grad: derivatives without touching grad()") {
  const Tensor x = leaf({2});
  const Tensor y = leaf({5});
  const Tensor product = mul(x, y);
  const std::vector<Tensor> both = grad({mul(product, x)}, {x, product, y}, {.retain = true});
  CHECK(values(both[0]) == Doubles{2 * 2 * 5});
  CHECK(values(both[1]) == Doubles{2});
  CHECK(values(both[2]) == Doubles{4});
  CHECK_FALSE(x.grad().defined());
  const std::vector<Tensor> of_two = grad({square(x), mul(y, 3)}, {x, y});
  CHECK(values(of_two[0]) == Doubles{4});
  CHECK(values(of_two[1]) == Doubles{3});
  const Tensor wide = mul(x, tensor({1, 2}, DType::float64));
  CHECK(values(grad({wide}, {x}, {.grad_outputs = {tensor({1, 10}, DType::float64)}})[0]) == Doubles{21});
}

TEST_CASE("grad: an input that no output depends on") {
  const Tensor x = leaf({2});
  const Tensor unused = leaf({5});
  CHECK_THROWS_AS(grad({square(x)}, {x, unused}), AutogradError);
  const std::vector<Tensor> gradients = grad({square(x)}, {x, unused}, {.allow_unused = true});
  CHECK(values(gradients[0]) == Doubles{4});
  CHECK_FALSE(gradients[1].defined());
  CHECK_THROWS_AS(grad({square(x)}, {tensor({1})}), AutogradError);
  CHECK_THROWS_AS(grad({square(x)}, {x}, {.grad_outputs = {Tensor(), Tensor()}}), ValueError);
}

TEST_CASE("grad: create_graph gives derivatives of derivatives") {
  const Tensor x = leaf({2, 3});
  Tensor derivative = mul(square(x), square(x));  // x⁴
  for (const Doubles& expected : {Doubles{32, 108}, Doubles{48, 108}, Doubles{48, 72}, Doubles{24, 24}}) {
    derivative = grad({sum(derivative)}, {x}, {.create_graph = true})[0];
    CHECK(values(derivative) == expected);
  }
  CHECK_FALSE(grad({sum(square(x))}, {x})[0].requires_grad());
}

TEST_CASE("backward: create_graph leaves a gradient that can be differentiated") {
  Tensor x = leaf({2, 3});
  backward(sum(mul(square(x), x)), {.create_graph = true});
  Tensor first = x.grad();
  x.set_grad({});  // otherwise the gradient and its leaf keep each other alive
  backward(sum(first));
  CHECK(values(x.grad()) == Doubles{12, 18});
}

TEST_CASE("grad: create_graph records under NoGrad too") {
  const Tensor x = leaf({2});
  const Tensor y = mul(square(x), x);
  const NoGrad no_grad;
  const Tensor first = grad({y}, {x}, {.create_graph = true})[0];
  CHECK(first.requires_grad());
  CHECK(values(grad({first}, {x})[0]) == Doubles{12});
}

TEST_CASE("grad: a hook may register another on the same tensor, which the next walk calls") {
  const Tensor x = leaf({2});
  Tensor y = mul(x, 3);
  int calls = 0;
  y.register_hook([&](const Tensor& gradient) {
    for (int i = 0; i < 20; ++i) {
      y.register_hook([&calls](const Tensor&) {
        ++calls;
        return Tensor();
      });
    }
    return mul(gradient, 2);
  });
  CHECK(values(grad({y}, {x}, {.retain = true})[0]) == Doubles{6});
  CHECK(calls == 0);
  CHECK(values(grad({y}, {x})[0]) == Doubles{6});
  CHECK(calls == 20);
}

TEST_CASE("grad: what was not chosen gets 0 from an infinite gradient, and not NaN") {
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor x = leaf({-1});
  CHECK(values(grad({sqrt(maximum(x, 0))}, {x})[0]) == Doubles{0});
  CHECK(values(grad({sqrt(minimum(-x, 0))}, {x})[0]) == Doubles{0});
  const Tensor a = leaf({-1, 0, 3});
  const GradOptions infinite{.grad_outputs = {scalar(infinity, DType::float64)}};
  CHECK(values(grad({max(a)}, {a}, infinite)[0]) == Doubles{0, 0, infinity});
  CHECK(values(grad({median(a)}, {a}, infinite)[0]) == Doubles{0, infinity, 0});
  const Tensor with_nan = leaf({1, std::nan(""), std::nan("")});
  CHECK(values(grad({max(with_nan)}, {with_nan})[0]) == Doubles{0, 0.5, 0.5});  // as in PyTorch
  const Tensor all = tensor({infinity, infinity, infinity}, DType::float64);
  CHECK(values(grad({pow(a, tensor({0, 0, 1}, DType::float64))}, {a}, {.grad_outputs = {all}})[0]) ==
        Doubles{0, 0, infinity});
}

}  // namespace linnet::test
