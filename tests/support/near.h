#pragma once

#include <cmath>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>

namespace linnet::test {

/// Compares equal within a relative error. (`doctest::Approx` alone allows an absolute error too, so near 0 it
/// accepts anything.)
inline doctest::Approx near(double value, double relative = 1e-12) {
  return doctest::Approx(value).epsilon(relative).scale(0);
}

/// ‖a − b‖ / ‖b‖, or ‖a‖ when b is 0.
inline double relative_error(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return INFINITY;
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(norm > 0 ? difference / norm : difference);
}

inline double relative_error(const Tensor& a, const std::vector<double>& b) {
  return relative_error(a.to_vector<double>(), b);
}

/// The largest |a − b|.
inline double largest_difference(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item<double>(); }

}  // namespace linnet::test
