#pragma once

#include <algorithm>

#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/device/transpose.h>

/// Sums along rows, eight rows at a time: one transposition of eight vectors of partial sums completes all eight. A
/// single row would need a sum across the lanes of a register, where each addition waits for the one before.

namespace linnet::cpu::LINNET_ISA::row_sums {

/// Rows that are summed together.
constexpr int kRows = transposition::kTileSide;
/// One number for each of eight rows, or eight elements of one row.
template <class T>
using Eight = product::VectorOf<T, kRows>;

/// Elements of a vector register, at least eight.
template <class T>
constexpr int kWide = product::kLanes<T> > kRows ? product::kLanes<T> : kRows;
template <class T>
using Wide = product::VectorOf<T, kWide<T>>;

template <class T>
Eight<T> fold(const Wide<T>& x) {
  if constexpr (kWide<T> == kRows) {
    return x;
  } else {
    static_assert(kWide<T> == 2 * kRows);
    return __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) +
           __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
  }
}

/// Calls `f<V>(d)` for the elements of a row, a V from d on: whole vectors, then eight elements, then one at a time.
template <class T, class Width, class F>
[[gnu::always_inline]] inline void for_each_vector(Width width, F f) {
  const int64_t wide = width / kWide<T> * kWide<T>, whole = width / kRows * kRows;
  for (int64_t d = 0; d < wide; d += kWide<T>) f.template operator()<Wide<T>>(d);
  if (wide < whole) f.template operator()<Eight<T>>(wide);
  for (int64_t d = whole; d < width; ++d) f.template operator()<T>(d);
}

/// Σ_d f<V>(r, d) for eight rows r, where f<V>(r, d) gives the elements of V from d on.
template <class T, class Width, class F>
Eight<T> sum_rows(Width width, F f) {
  Wide<T> wide[kRows] = {};
  Eight<T> rest[kRows] = {};
  for_each_vector<T>(width, [&]<class V>(int64_t d) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      if constexpr (sizeof(V) == sizeof(Wide<T>)) {
        wide[r] += f.template operator()<V>(r, d);
      } else if constexpr (sizeof(V) == sizeof(Eight<T>)) {
        rest[r] += f.template operator()<V>(r, d);
      } else {
        rest[r][0] += f.template operator()<V>(r, d);
      }
    }
  });
  transposition::Row<T> sums[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) sums[r] = fold<T>(wide[r]) + rest[r];
  transposition::exchange_all<kRows / 2>(sums);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// A vector in memory, with the alignment of T. As an argument of a template it would lose that alignment in clang.
template <class V, class T>
struct InMemory {
  using Type [[gnu::aligned(alignof(T)), gnu::may_alias]] = V;
};
template <class V, class T>
[[gnu::always_inline]] inline V load(const T* from) {
  return *reinterpret_cast<const typename InMemory<V, T>::Type*>(from);
}
template <class V, class T>
[[gnu::always_inline]] inline void store(T* to, const V& v) {
  *reinterpret_cast<typename InMemory<V, T>::Type*>(to) = v;
}

}  // namespace linnet::cpu::LINNET_ISA::row_sums

namespace linnet::cpu::LINNET_ISA {

/// out[r] = x(r)·y(r) for rows of some width.
template <class T, class X, class Y, class Width>
void dot_rows(int64_t rows, X x, Y y, T* out, Width width) {
  using namespace row_sums;
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t count = std::min<int64_t>(kRows, rows - first);
    const T *xs[kRows], *ys[kRows];
    for (int64_t r = 0; r < kRows; ++r) {
      xs[r] = x(first + std::min(r, count - 1));
      ys[r] = y(first + std::min(r, count - 1));
    }
    const Eight<T> sums =
        sum_rows<T>(width, [&]<class V>(int r, int64_t d) { return load<V>(xs[r] + d) * load<V>(ys[r] + d); });
    for (int64_t r = 0; r < count; ++r) out[first + r] = sums[r];
  }
}

/// Whether x [rows, width] has no infinity and no NaN: x · 0 is 0 for all other numbers.
template <class T>
bool all_finite(Rows<const T> x, int64_t rows, int64_t width) {
  using namespace row_sums;
  Eight<T> zeros{};
  for (int64_t first = 0; first < rows; first += kRows) {
    const auto row = [&](int r) { return x[std::min(first + r, rows - 1)]; };
    zeros += sum_rows<T>(width, [&]<class V>(int r, int64_t d) { return load<V>(row(r) + d) * T{0}; });
  }
  bool all = true;
  for (int r = 0; r < kRows; ++r) all = all && zeros[r] == 0;
  return all;
}

}  // namespace linnet::cpu::LINNET_ISA
