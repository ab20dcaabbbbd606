#pragma once

#include <cmath>
#include <cstdint>

/// Queries and keys of Fastmax with mean 0 and variance 1 (Gerami et al. 2024, eqs. 5 and 6), row by row.

namespace linnet::cpu::LINNET_ISA {

template <class T, class Width>
T sum(const T* x, Width width) {
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t d = 0; d < width; ++d) total += x[d];
  return total;
}

/// y_r = (x_r − mean(x_r)) / std(x_r) and inverse_std_r = 1 / std(x_r), for x_r = row(r) and y one row after another.
/// Step by step for all rows, because the steps of one row wait for one another.
template <class T, class Row, class Width>
void standardise(int64_t rows, Row row, T* y, T* inverse_std, Width width) {
  const T inverse_width = T{1} / static_cast<T>(int64_t{width});
  for (int64_t r = 0; r < rows; ++r) inverse_std[r] = sum(row(r), width) * inverse_width;
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = row(r);
    T* out = y + r * width;
    const T mean = inverse_std[r];
    T squares = 0;
#pragma omp simd reduction(+ : squares)
    for (int64_t d = 0; d < width; ++d) {
      out[d] = x[d] - mean;
      squares += out[d] * out[d];
    }
    inverse_std[r] = squares * inverse_width;
  }
#pragma omp simd
  for (int64_t r = 0; r < rows; ++r) inverse_std[r] = 1 / std::sqrt(inverse_std[r] + static_cast<T>(1e-5));
  for (int64_t r = 0; r < rows; ++r) {
    T* out = y + r * width;
    const T factor = inverse_std[r];
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) out[d] *= factor;
  }
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
