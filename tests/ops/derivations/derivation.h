#pragma once

#include <string>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/array/creation.h>

#include "tests/support/near.h"
#include "tests/support/values.h"

/// Shared by the tests of derivations. Each hand-written gradient has a page of numbered steps beside its code,
/// `*_gradient.md`. A test computes the quantity of each step by the page's formula, from plain ops in float64, and
/// compares it with the tape's gradient.

namespace linnet::test {

/// ∂L/∂x of L = loss(x), by the tape.
template <class Loss>
Tensor tape_gradient(const Tensor& x, Loss loss) {
  const Tensor leaf = x.detach().set_requires_grad();
  return grad({loss(leaf)}, {leaf})[0];
}

/// Σ G ∘ y: the loss whose gradient by y is G.
inline Tensor loss_of(const Tensor& y, const Tensor& cotangent) { return sum(y * cotangent); }

/// Checks that the quantity of a page's step has the expected value, up to rounding.
inline void check_step(const std::string& step, const Tensor& derived, const Tensor& expected) {
  CAPTURE(step);
  REQUIRE(derived.shape() == expected.shape());
  CHECK(max(abs(expected)).item<double>() > 0);
  CHECK(relative_error(derived, values(expected)) < 1e-11);
}

}  // namespace linnet::test
