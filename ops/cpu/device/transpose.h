#pragma once

#include <utility>

#include <linnet/ops/cpu/device/head_rows.h>
#include <linnet/ops/cpu/device/tile_product.h>

namespace linnet::cpu::LINNET_ISA {

namespace transposition {

/// Tiles of 8 × 8 are transposed in registers.
constexpr int kTileSide = 8;
template <class T>
using Row [[gnu::vector_size(kTileSide * sizeof(T))]] = T;  // in a register
template <class T>
using RowInMemory = product::VectorOf<T, kTileSide>;

/// One step of the transposition: of each square of 2·kHalf rows and columns, swaps the upper right quarter with the
/// lower left one.
template <int kHalf, class V, int... kLane>
[[gnu::always_inline]] inline void exchange(V& upper, V& lower, std::integer_sequence<int, kLane...>) {
  const V both[] = {upper, lower};
  upper = __builtin_shufflevector(both[0], both[1], ((kLane & kHalf) != 0 ? kTileSide + (kLane ^ kHalf) : kLane)...);
  lower = __builtin_shufflevector(both[0], both[1], ((kLane & kHalf) != 0 ? kTileSide + kLane : kLane ^ kHalf)...);
}

template <int kHalf, class V>
[[gnu::always_inline]] inline void exchange_all(V (&rows)[kTileSide]) {
#pragma GCC unroll 8
  for (int r = 0; r < kTileSide; ++r) {
    if ((r & kHalf) == 0) exchange<kHalf>(rows[r], rows[r + kHalf], std::make_integer_sequence<int, kTileSide>());
  }
  if constexpr (kHalf > 1) exchange_all<kHalf / 2>(rows);
}

template <class T>
void transpose_tile(Rows<const T> from, T factor, Rows<T> to) {
  Row<T> rows[kTileSide];
#pragma GCC unroll 8
  for (int r = 0; r < kTileSide; ++r) rows[r] = *reinterpret_cast<const RowInMemory<T>*>(from[r]) * factor;
  exchange_all<kTileSide / 2>(rows);
#pragma GCC unroll 8
  for (int r = 0; r < kTileSide; ++r) *reinterpret_cast<RowInMemory<T>*>(to[r]) = rows[r];
}

}  // namespace transposition

/// to[c][r] = factor · from[r][c] for r < rows, c < columns.
template <class T>
void transpose(int64_t rows, int64_t columns, Rows<const T> from, Rows<T> to, T factor = 1) {
  using transposition::kTileSide;
  const int64_t whole_rows = rows / kTileSide * kTileSide, whole_columns = columns / kTileSide * kTileSide;
  for (int64_t r = 0; r < whole_rows; r += kTileSide) {
    for (int64_t c = 0; c < whole_columns; c += kTileSide) {
      transposition::transpose_tile<T>({from[r] + c, from.stride}, factor, {to[c] + r, to.stride});
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = r < whole_rows ? whole_columns : 0; c < columns; ++c) to[c][r] = factor * from[r][c];
  }
}

}  // namespace linnet::cpu::LINNET_ISA
