#pragma once

#include <cmath>
#include <cstdint>

/// Queries and keys of Fastmax with mean 0 and variance 1 (Gerami et al. 2024, eqs. 5 and 6), row by row.

namespace linnet::cpu::LINNET_ISA {

/// y = (x − mean(x)) / std(x); returns 1 / std(x).
template <class T, class Width>
T standardise(const T* x, T* y, Width width) {
  const T inverse_width = T{1} / static_cast<T>(int64_t{width});
  T sum = 0, squares = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t d = 0; d < width; ++d) sum += x[d];
  const T mean = sum * inverse_width;
#pragma omp simd reduction(+ : squares)
  for (int64_t d = 0; d < width; ++d) {
    y[d] = x[d] - mean;
    squares += y[d] * y[d];
  }
  const T inverse_std = 1 / std::sqrt(squares * inverse_width + static_cast<T>(1e-5));
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) y[d] *= inverse_std;
  return inverse_std;
}

/// From ∂y to ∂x, in place:  ∂x = (∂y − mean(∂y) − y mean(∂y ∘ y)) / std(x)
template <class T, class Width>
void standardise_backward(T* g, const T* y, T inverse_std, Width width) {
  const T inverse_width = T{1} / static_cast<T>(int64_t{width});
  T sum = 0, product = 0;
#pragma omp simd reduction(+ : sum, product)
  for (int64_t d = 0; d < width; ++d) {
    sum += g[d];
    product += g[d] * y[d];
  }
  const T mean = sum * inverse_width, slope = product * inverse_width;
#pragma omp simd
  for (int64_t d = 0; d < width; ++d) g[d] = (g[d] - mean - y[d] * slope) * inverse_std;
}

}  // namespace linnet::cpu::LINNET_ISA
