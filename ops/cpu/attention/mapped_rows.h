#pragma once

#include <algorithm>

#include <linnet/core/device/backend.h>
#include <linnet/ops/cpu/attention/standardise.h>
#include <linnet/ops/cpu/device/row_sums.h>
#include <linnet/ops/cpu/device/vector_math.h>

/// The maps that attention with polynomial weights applies to queries and keys first.

namespace linnet::cpu::LINNET_ISA {

/// y_r = φ(x_r) / s_r and inverse_r = 1 / s_r, for x_r = row(r) and φ(x) = elu(x) + 1 (Katharopoulos et al. 2020, eq.
/// 7), where s_r is the sum of φ(x_r) for queries and 1 for keys.
template <class T, class Row, class Width>
void make_elu_rows(int64_t rows, Row row, bool queries, Rows<T> y, T* inverse, Width width) {
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = row(r);
    T* out = y[r];
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) out[d] = vec::elu_plus_one(x[d]);
  }
  if (!queries) {
    std::fill_n(inverse, rows, T{1});
    return;
  }
  using namespace row_sums;
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min<int64_t>(kRows, rows - first);
    const Eight<T> factors = 1 / sum_rows<T>(width, [&]<class V>(int r, int64_t d) {
                               return load<V>(y[first + std::min<int64_t>(r, count - 1)] + d);
                             });
    for (int64_t r = 0; r < count; ++r) {
      const T factor = inverse[first + r] = factors[r];
      T* out = y[first + r];
#pragma omp simd
      for (int64_t d = 0; d < width; ++d) out[d] *= factor;
    }
  }
}

/// From ∂y_r = gradients[r] to ∂x_r in place: ∂x = ∂y φ'(x) / s, with s taken as constant. Where x < 0 the slope
/// φ'(x) is φ(x) ≤ 1, and 1 elsewhere.
template <class T, class Width>
void elu_rows_backward(int64_t rows, Rows<T> gradients, Rows<const T> y, const T* inverse, Width width) {
  for (int64_t r = 0; r < rows; ++r) {
    T* g = gradients[r];
    const T *out = y[r], most = inverse[r];
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) g[d] *= out[d] < most ? out[d] : most;
  }
}

/// The rows y of some queries or keys, in the caller's memory. `map` is not RowMap::none.
template <class T>
struct MappedRows {
  RowMap map;
  bool queries;  ///< true for queries, false for keys
  Rows<T> y;     ///< [rows, width]
  T* inverse;    ///< [rows]: 1 / std, or 1 / sum
  int64_t width;

  /// Computes y from row(r) for r < rows.
  template <class Row>
  void make(int64_t rows, Row row) const {
    with_width<T>(width, [&](auto w) {
      if (map == RowMap::standardise) return standardise<T>(rows, row, y, inverse, w);
      make_elu_rows<T>(rows, row, queries, y, inverse, w);
    });
  }
  /// Sets row r and its gradient to 0.
  void clear(int64_t r) const {
    std::fill_n(y[r], width, T{0});
    inverse[r] = 0;
  }
  /// Turns the gradients of the rows into those of the original rows, in place.
  void differentiate(int64_t rows, Rows<T> gradients) const {
    with_width<T>(width, [&](auto w) {
      if (map == RowMap::standardise) return standardise_backward<T>(rows, gradients, y, inverse, w);
      elu_rows_backward<T>(rows, gradients, y, inverse, w);
    });
  }
};

}  // namespace linnet::cpu::LINNET_ISA
