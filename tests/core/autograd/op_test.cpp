#include <linnet/core/autograd/tape.h>

#include <doctest/doctest.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/leaf.h"
#include "tests/support/values.h"

namespace linnet::test {

TEST_CASE("op: one that ends in neither record nor non_differentiable is caught") {
  const Tensor x = leaf({1});
  const auto forgetful = [&] {
    Op op("forgetful", Where{}, {x});
    return Tensor(x.detach());
  };
  CHECK_THROWS_AS(forgetful(), AutogradError);
  const auto throws_already = [&] {
    Op op("failing", Where{}, {x});
    throw ValueError("first");
  };
  CHECK_THROWS_WITH_AS(throws_already(), doctest::Contains("first"), ValueError);
}

TEST_CASE("op: an input that comes out again keeps its own place in the tape") {
  const auto reverse_gradient = [](const Tensor& x) {
    Op op("reverse_gradient", Where{}, {x});
    return op.record(x, [](const Tensor& g) { return Grads{-g}; });
  };
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 3;
  CHECK(values(reverse_gradient(y)) == Doubles{3, 6});
  CHECK(values(grad({sum(y)}, {x})[0]) == Doubles{3, 3});
  CHECK(values(grad({sum(reverse_gradient(x * 3))}, {x})[0]) == Doubles{-3, -3});
  backward(sum(reverse_gradient(x)));
  CHECK(x.is_leaf());
  CHECK(values(x.grad()) == Doubles{-1, -1});
  const Tensor plain = tensor({1, 2}, DType::float64);
  Op op("pick", Where{}, {plain, x});
  CHECK(op.record(plain, [](const Tensor& g) { return Grads{{}, g}; }).requires_grad());
  CHECK_FALSE(plain.requires_grad());
}

TEST_CASE("op: a backward whose gradient does not fit is caught") {
  const auto giving = [](const Grads& gradients) {
    Tensor x = leaf({1, 2});
    Op op("misfit", Where{}, {x});
    backward(op.record(Tensor::empty({}, DType::float64).fill_(0), [&](const Tensor&) { return gradients; }));
  };
  const auto returning = [&](const Tensor& gradient) { giving({gradient}); };
  CHECK_THROWS_AS(returning(tensor({1, 2, 3}, DType::float64)), ShapeError);
  CHECK_THROWS_AS(returning(tensor({1, 2})), DTypeError);
  CHECK_NOTHROW(returning(uniform({4, 2}, 1)));
  CHECK_THROWS_WITH_AS(giving({}), doctest::Contains("0 gradients for 1 inputs; give one each"), ValueError);
  CHECK_THROWS_AS(giving({leaf({1, 2}), leaf({1, 2})}), ValueError);
}

}  // namespace linnet::test
