#pragma once

#include <algorithm>
#include <cmath>

#include <linnet/ops/cpu/row_sums.h>

/// Queries and keys of Fastmax with mean 0 and variance 1 (Gerami et al. 2024, eqs. 5 and 6).

namespace linnet::cpu::LINNET_ISA {

/// y_r = (x_r − mean(x_r)) / std(x_r) and inverse_std_r = 1 / std(x_r), for x_r = row(r) and y one row after another.
template <class T, class Row, class Width>
void standardise(int64_t rows, Row row, T* y, T* inverse_std, Width width) {
  using namespace row_sums;
  const T inverse_width = T{1} / static_cast<T>(int64_t{width});
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t count = std::min<int64_t>(kBlock, rows - first);
    const T* x[kBlock];
    for (int64_t r = 0; r < kBlock; ++r) x[r] = row(first + std::min(r, count - 1));
    const Eight<T> mean =
        inverse_width * sum_rows<T>(width, [&]<class V>(int r, int64_t d) { return at<V>(x[r] + d); });
    const Eight<T> variance = inverse_width * sum_rows<T>(width, [&]<class V>(int r, int64_t d) {
                                const V centred = at<V>(x[r] + d) - mean[r];
                                return centred * centred;
                              });
    for (int64_t r = 0; r < count; ++r) {
      const T factor = 1 / std::sqrt(variance[r] + static_cast<T>(1e-5));
      inverse_std[first + r] = factor;
      fill_row(width, y + (first + r) * width,
               [&]<class V>(int64_t d) { return (at<V>(x[r] + d) - mean[r]) * factor; });
    }
  }
}

/// From ∂y_r = gradients[r] to ∂x_r, in place:  ∂x = (∂y − mean(∂y) − y mean(∂y ∘ y)) / std(x)
template <class T, class Width>
void standardise_backward(int64_t rows, Rows<T> gradients, Rows<const T> y, const T* inverse_std, Width width) {
  using namespace row_sums;
  const T inverse_width = T{1} / static_cast<T>(int64_t{width});
  for (int64_t first = 0; first < rows; first += kBlock) {
    const int64_t count = std::min<int64_t>(kBlock, rows - first);
    const T* g[kBlock];
    const T* out[kBlock];
    for (int64_t r = 0; r < kBlock; ++r) {
      g[r] = gradients[first + std::min(r, count - 1)];
      out[r] = y[first + std::min(r, count - 1)];
    }
    const Eight<T> mean =
        inverse_width * sum_rows<T>(width, [&]<class V>(int r, int64_t d) { return at<V>(g[r] + d); });
    const Eight<T> slope = inverse_width * sum_rows<T>(width, [&]<class V>(int r, int64_t d) {
                             return at<V>(g[r] + d) * at<V>(out[r] + d);
                           });
    for (int64_t r = 0; r < count; ++r) {
      const T factor = inverse_std[first + r];
      fill_row(width, gradients[first + r], [&]<class V>(int64_t d) {
        return (at<V>(g[r] + d) - mean[r] - at<V>(out[r] + d) * slope[r]) * factor;
      });
    }
  }
}

}  // namespace linnet::cpu::LINNET_ISA
