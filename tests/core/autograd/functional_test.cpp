#include <linnet/core/autograd/functional.h>

#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/autograd/checkpoint.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/normalisation.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/support/same_bits.h"
#include "tests/support/values.h"

namespace linnet::test {
namespace {

using Values = std::vector<double>;

}  // namespace

TEST_CASE("jacobian: of a product with a matrix it is the matrix") {
  const Tensor a = uniform({2, 3}, 1), x = uniform({3}, 2);
  CHECK(same_bits(jacobian([&](const Tensor& in) { return matmul(a, in); }, x), a));
}

TEST_CASE("jacobian: its shape is the result's and then the input's") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}}, DType::float64);
  const Tensor j = jacobian([](const Tensor& in) { return square(in).t(); }, x);
  CHECK(j.shape() == Shape{3, 2, 2, 3});
  CHECK(j[{2, 0, 0, 2}].item() == 6);
  CHECK(j[{0, 1, 1, 0}].item() == 8);
  CHECK(sum(j).item() == 2 * 21);
  CHECK(jacobian([](const Tensor& in) { return sum(in * in); }, x).shape() == Shape{2, 3});
  CHECK(jacobian([](const Tensor& in) { return exp(in); }, zeros({0}, DType::float64)).shape() == Shape{0, 0});
  CHECK(jacobian([](const Tensor& in) { return in * 3; }, scalar(2.0)).item() == 3);
}

TEST_CASE("jacobian: constants have zeros, and the input and its gradient stay as they are") {
  const Tensor x = uniform({2}, 1).set_requires_grad(), w = uniform({3}, 2).set_requires_grad();
  CHECK(jacobian([&](const Tensor&) { return w * 2; }, x).to_vector<double>() == Values(6));
  CHECK(jacobian([](const Tensor&) { return ones({3}, DType::float64); }, x).to_vector<double>() == Values(6));
  const Tensor j = jacobian([&](const Tensor& in) { return in * w[0]; }, x);
  CHECK_FALSE(j.requires_grad());
  CHECK_FALSE(x.grad().defined());
  CHECK_FALSE(w.grad().defined());
}

TEST_CASE("jacobian, hessian: float32, within NoGrad, and through a checkpoint") {
  const NoGrad no_grad;
  const Tensor x = tensor({1, 2});
  const auto f = [](const Tensor& in) { return checkpoint([](const Tensor& y) { return y * y * y; }, in); };
  CHECK(jacobian(f, x).dtype() == DType::float32);
  CHECK(jacobian(f, x).to_vector<float>() == std::vector<float>{3, 0, 0, 12});
  CHECK(hessian([&](const Tensor& in) { return sum(f(in)); }, x).to_vector<float>() ==
        std::vector<float>{6, 0, 0, 12});
  CHECK_FALSE(grad_enabled());
}

TEST_CASE("hessian: of a quadratic form it is the sum of the matrix and its transpose") {
  const Tensor a = uniform({3, 3}, 1), x = uniform({3}, 2);
  const Tensor h = hessian([&](const Tensor& in) { return sum(in * matmul(a, in)); }, x);
  CHECK(allclose(h, a + a.t(), 1e-14, 1e-14));
}

TEST_CASE("hessian: its shape is the input's twice, and linear functions have zeros") {
  const Tensor x = uniform({2, 3}, 1);
  const Tensor h = hessian([](const Tensor& in) { return sum(in * in * in).reshape({1, 1}); }, x);
  CHECK(h.shape() == Shape{2, 3, 2, 3});
  CHECK(h[{1, 2, 1, 2}].item() == doctest::Approx(6 * x[{1, 2}].item()));
  CHECK(h[{1, 2, 1, 1}].item() == 0);
  CHECK(hessian([](const Tensor& in) { return sum(in * 2); }, x).to_vector<double>() == Values(36));
  CHECK(hessian([](const Tensor&) { return scalar(1.0); }, x).to_vector<double>() == Values(36));
  CHECK(hessian([](const Tensor& in) { return exp(in); }, scalar(0.0)).item() == 1);
}

TEST_CASE("jacobian, hessian: what they cannot take is refused") {
  const auto f = [](const Tensor& in) { return exp(in); };
  CHECK_THROWS_WITH_AS(jacobian(f, arange(3), {"a.cpp", 1}),
                       "jacobian: only floating tensors have gradients; this one is int64 (a.cpp:1)", DTypeError);
  CHECK_THROWS_WITH_AS(hessian(f, arange(3)), doctest::Contains("hessian: only floating tensors"), DTypeError);
  CHECK_THROWS_WITH_AS(
      hessian(f, uniform({2}, 1), {"a.cpp", 1}),
      "hessian: f(x) has shape [2]; reduce it to one element (sum, mean), or take jacobian, which has the first "
      "derivatives of several (a.cpp:1)",
      ShapeError);
  CHECK_THROWS_WITH_AS(
      hessian(
          [](const Tensor& in) { return sum(layer_norm(in, ones({4}, DType::float64), zeros({4}, DType::float64))); },
          uniform({2, 4}, 1)),
      doctest::Contains("for first derivatives only"), AutogradError);
}

}  // namespace linnet::test
