#pragma once

#include <algorithm>
#include <cmath>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/large_mean.h>
#include <linnet/ops/cpu/device/row_sums.h>

/// Queries and keys of Fastmax with mean 0 and variance 1 (Gerami et al. 2024).

namespace linnet::cpu::LINNET_ISA {

/// y_r = (x_r − mean(x_r)) / std(x_r) and inverse_std_r = 1 / std(x_r), for x_r = row(r).    [FAST eq.5] [FAST eq.6]
template <class T, class Row, class Width>
void standardise(int64_t rows, Row row, Rows<T> y, T* inverse_std, Width width) {
  using namespace row_sums;
  const T inverse_width = T{1} / static_cast<T>(int64_t{width});
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min<int64_t>(kRows, rows - first);
    const T* x[kRows];
    for (int64_t r = 0; r < kRows; ++r) x[r] = row(first + std::min(r, count - 1));
    const Eight<T> mean =
        inverse_width * sum_rows<T>(width, [&]<class V>(int r, int64_t d) { return load<V>(x[r] + d); });
    Eight<T> variance = inverse_width * sum_rows<T>(width, [&]<class V>(int r, int64_t d) {
                          const V centred = load<V>(x[r] + d) - mean[r];
                          return centred * centred;
                        });
    // After a large mean is subtracted, rounding leaves a part of it in the row: `rest`.
    Eight<T> rest{};
    const auto is_large = has_large_mean(mean, variance);
    bool any_large = false;
    for (int64_t r = 0; r < kRows; ++r) any_large = any_large || is_large[r];
    if (any_large) {
      const Eight<T> left =
          inverse_width * sum_rows<T>(width, [&]<class V>(int r, int64_t d) { return load<V>(x[r] + d) - mean[r]; });
      rest = is_large ? left : rest;
      variance = is_large ? variance - rest * rest : variance;
      variance = variance < 0 ? Eight<T>{} : variance;
    }
    T factors[kRows];
#pragma omp simd
    for (int64_t r = 0; r < kRows; ++r) factors[r] = 1 / std::sqrt(variance[r] + static_cast<T>(1e-5));
    for (int64_t r = 0; r < count; ++r) {
      const T factor = factors[r];
      inverse_std[first + r] = factor;
      T* out = y[first + r];
      const T centre = mean[r], left = rest[r];
      for_each_vector<T>(
          width, [&]<class V>(int64_t d) { store<V>(out + d, (load<V>(x[r] + d) - centre - left) * factor); });
    }
  }
}

/// The gradient of [FAST eq.5] [FAST eq.6], from ∂y_r = gradients[r] to ∂x_r in place: ∂x = (∂y − y mean(∂y ∘ y)) /
/// std(x). The full formula subtracts mean(∂y) too, which is 0 here: ∂q̂_i = Σ_j ∂t_ij k̂_j is a sum of rows of mean 0,
/// and so is ∂k̂_j.
template <class T, class Width>
void standardise_backward(int64_t rows, Rows<T> gradients, Rows<const T> y, const T* inverse_std, Width width) {
  const T inverse_width = T{1} / static_cast<T>(int64_t{width});
  constexpr int64_t kRows = 8;
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min(kRows, rows - first);
    T slopes[kRows];
    dot_rows<T>(
        count, [&](int64_t r) { return gradients[first + r]; }, [&](int64_t r) { return y[first + r]; }, slopes,
        width);
    for (int64_t r = 0; r < count; ++r) {
      T* g = gradients[first + r];
      const T* out = y[first + r];
      const T slope = slopes[r] * inverse_width, factor = inverse_std[first + r];
      row_sums::for_each_vector<T>(width, [&]<class V>(int64_t d) {
        row_sums::store<V>(g + d, (row_sums::load<V>(g + d) - row_sums::load<V>(out + d) * slope) * factor);
      });
    }
  }
}

}  // namespace linnet::cpu::LINNET_ISA
