#include <cmath>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>

#include "tests/support/near.h"
#include "tests/support/values.h"

/// Reductions of elements whose powers, or the differences of which from their mean, need care.

using namespace linnet;
using linnet::test::near;
using test::Doubles;
using test::kInfinity;
using test::values;

namespace {

/// d sum(f(x)) / dx
template <class F>
Doubles gradient(const F& f, const Tensor& at) {
  Tensor x = at.detach().set_requires_grad();
  return values(grad({sum(f(x))}, {x})[0]);
}

}  // namespace

TEST_CASE("norm: no power overflows or vanishes, in either dtype") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const double size : {1e10, 1e-10, dtype == DType::float64 ? 1e200 : 1e30}) {
      for (const double p : {1.5, 3.0, 40.0, 1000.0}) {
        CAPTURE(size);
        CAPTURE(p);
        const Tensor x = tensor(Doubles{size, -size, 0}).to(dtype);
        CHECK(norm(x, p).item<double>() == near(std::pow(2, 1 / p) * size, 1e-6));
        const Doubles slopes = gradient([=](const Tensor& t) { return norm(t, p); }, x);
        const double slope = std::pow(2, 1 / p - 1);
        CHECK(slopes[0] == near(slope, 1e-3));
        CHECK(slopes[1] == near(-slope, 1e-3));
        CHECK(slopes[2] == 0);
      }
    }
    CHECK(norm(tensor({1e10, 1}).to(dtype), 40).item<double>() == near(1e10, 1e-6));
    CHECK(norm(tensor({1, kInfinity}).to(dtype), 40).item<double>() == kInfinity);
  }
  const Tensor rows = tensor({1e10, 0, 1e-10, 0}, {2, 2});
  CHECK(values(norm(rows, 40, {1})) == values(rows.select(1, 0)));
  CHECK(norm(rows, 40, {0}, true).shape() == Shape{1, 2});
  CHECK(values(norm(zeros({2, 0}), 3, {1})) == Doubles{0, 0});
}

TEST_CASE("var of float32 around a large mean is that of the differences") {
  const Tensor x = arange(10, DType::float32) + 10000000;
  CHECK(var(x).item<double>() == near(55.0 / 6, 1e-6));
  CHECK(var(x, {}, 0).item<double>() == near(8.25, 1e-6));
  const Doubles slopes = gradient([](const Tensor& t) { return var(t); }, x);
  for (size_t i = 0; i < 10; ++i) CHECK(slopes[i] == near(2 * (static_cast<double>(i) - 4.5) / 9, 1e-5));
  // Where the mean of equal numbers is rounded, the variance is not negative.
  for (const float size : {0.1F, 0.3F, 1e7F, 3e-39F}) CHECK(var(full({7}, size)).item<float>() >= 0);
  CHECK(var(tensor({3e38F, -3e38F, 1e38F})).item<float>() == kInfinity);
  Generator rng(1);
  const Tensor wide = randn({1000}, rng, DType::float64), narrow = wide.to(DType::float32);
  CHECK(var(narrow).item<double>() == near(var(narrow.to(DType::float64)).item<double>(), 1e-7));
}
