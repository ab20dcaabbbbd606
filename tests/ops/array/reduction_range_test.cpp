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
