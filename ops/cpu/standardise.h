#pragma once

#include <algorithm>
#include <cmath>

#include <linnet/ops/cpu/tile_product.h>
#include <linnet/ops/cpu/transpose.h>

/// Queries and keys of Fastmax with mean 0 and variance 1 (Gerami et al. 2024, eqs. 5 and 6), eight rows at a time:
/// the sums along the rows then end in one transposition for all eight, where row by row each would end in one of its
/// own.

namespace linnet::cpu::LINNET_ISA {

namespace standardisation {

using transposition::kBlock;
/// A number for each of eight rows, or eight elements of one.
template <class T>
using Eight = transposition::Row<T>;

/// As many as a register holds, eight at the least.
template <class T>
constexpr int kWide = product::kLanes<T> > kBlock ? product::kLanes<T> : kBlock;
template <class T>
using Wide = product::VectorOf<T, kWide<T>>;

template <class T>
Eight<T> fold(const Wide<T>& x) {
  if constexpr (kWide<T> == kBlock) {
    return x;
  } else {
    static_assert(kWide<T> == 2 * kBlock);
    return __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
           __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  }
}

/// Σ_d f<V>(r, d) for eight rows r, where f<V>(r, d) gives the elements of V from d on: a vector of them, or one.
template <class T, class Width, class F>
Eight<T> sum_rows(Width width, F f) {
  Wide<T> wide[kBlock] = {};
  const int64_t whole = width / kWide<T> * kWide<T>;
  for (int64_t d = 0; d < whole; d += kWide<T>) {
#pragma GCC unroll 8
    for (int r = 0; r < kBlock; ++r) wide[r] += f.template operator()<Wide<T>>(r, d);
  }
  Eight<T> sums[kBlock];
#pragma GCC unroll 8
  for (int r = 0; r < kBlock; ++r) sums[r] = fold<T>(wide[r]);
  for (int64_t d = whole; d < width; ++d) {
#pragma GCC unroll 8
    for (int r = 0; r < kBlock; ++r) sums[r][0] += f.template operator()<T>(r, d);
  }
  transposition::exchange_all<kBlock / 2>(sums);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// to[d] = f<V>(d) for all d, in steps of V.
template <class T, class Width, class F>
void fill_row(Width width, T* to, F f) {
  const int64_t whole = width / kWide<T> * kWide<T>;
  for (int64_t d = 0; d < whole; d += kWide<T>) {
    *reinterpret_cast<Wide<T>*>(to + d) = f.template operator()<Wide<T>>(d);
  }
  for (int64_t d = whole; d < width; ++d) to[d] = f.template operator()<T>(d);
}

template <class V, class T>
const V& at(const T* x) {
  return *reinterpret_cast<const V*>(x);
}

}  // namespace standardisation

/// y_r = (x_r − mean(x_r)) / std(x_r) and inverse_std_r = 1 / std(x_r), for x_r = row(r) and y one row after another.
template <class T, class Row, class Width>
void standardise(int64_t rows, Row row, T* y, T* inverse_std, Width width) {
  using namespace standardisation;
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
  using namespace standardisation;
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
