#pragma once

#include <algorithm>

#include <linnet/ops/cpu/device/tile_product.h>

/// Causal products q_n·S_n with the running sum S_n = S_{n−1} + a_nᵀ·b_n, one token after another. The recurrence
/// needs no more multiplications than one product with the final sum; a quadratic form, with a weight for each pair
/// of tokens, would need twice as many.
///
/// A tile of S, some rows by one or two vectors, stays in registers while the loop runs over the tokens. Each
/// iteration does two multiply-adds for each vector of the tile and loads one element of a and one of q for each row.
/// Where registers are few, two vectors to a row keep loads from being the bottleneck. One accumulator for each
/// vector of the output is then enough, since the next token's output does not depend on it. Factors a and q are read
/// again for every few columns, so tokens are split such that both stay in the L1 cache.

namespace linnet::cpu::LINNET_ISA {

namespace recurrence {

/// Vectors and rows of a tile. If the rows are the D entries of a token and a 1, a tile has one more row.
constexpr int kVectors = product::kRows == 8 ? 1 : 2;
constexpr int kTileRows = 2 * product::kRows / kVectors;
/// Bytes of a and q for the tokens of one split: they stay in the L1 cache beside the other data of a tile.
constexpr int64_t kCacheBytes = 24 << 10;

template <class T>
struct RecurrenceOperands {
  Rows<const T> a, b, q;
  Rows<T> s, out;

  RecurrenceOperands from_row(int64_t r) const {
    return {{a.data + r, a.stride}, b, {q.data + r, q.stride}, s.from(r), out};
  }
  RecurrenceOperands from_column(int64_t c) const {
    return {a, {b.data + c, b.stride}, q, {s.data + c, s.stride}, {out.data + c, out.stride}};
  }
};

/// A tile of kR rows by kC vectors of S. The first tile of a column writes `out`; the others add to it.
template <int kR, int kC, int kCount, class T>
void multiply_tile(int64_t tokens, const RecurrenceOperands<T>& x, bool first) {
  using V = product::VectorOf<T, kCount>;
  constexpr int kSums = kC > 1 ? 1 : std::min(kR, 4);  // independent accumulators
  const auto in = [](const T* at, int c) { return *reinterpret_cast<const V*>(at + c * kCount); };
  const auto out = [](T* at, int c) -> V& { return *reinterpret_cast<V*>(at + c * kCount); };
  V state[kR][kC];
#pragma GCC unroll 17
  for (int r = 0; r < kR; ++r) {
    for (int c = 0; c < kC; ++c) state[r][c] = in(x.s[r], c);
  }
  for (int64_t n = 0; n < tokens; ++n) {
    const T *a = x.a[n], *q = x.q[n];
    V b[kC], sums[kSums][kC] = {};
    for (int c = 0; c < kC; ++c) {
      b[c] = in(x.b[n], c);
      if (!first) sums[0][c] = in(x.out[n], c);
    }
#pragma GCC unroll 17
    for (int r = 0; r < kR; ++r) {
      for (int c = 0; c < kC; ++c) state[r][c] += a[r] * b[c];
      for (int c = 0; c < kC; ++c) sums[r % kSums][c] += q[r] * state[r][c];
    }
    for (int c = 0; c < kC; ++c) {
#pragma GCC unroll 4
      for (int i = 1; i < kSums; ++i) sums[0][c] += sums[i][c];
      out(x.out[n], c) = sums[0][c];
    }
  }
#pragma GCC unroll 17
  for (int r = 0; r < kR; ++r) {
    for (int c = 0; c < kC; ++c) out(x.s[r], c) = state[r][c];
  }
}

/// All rows from `row` on, in tiles of kR rows, then of kR/2, kR/4, … for the rest.
template <int kR, int kC, int kCount, class T>
void multiply_tiles(int64_t row, int64_t rows, int64_t tokens, const RecurrenceOperands<T>& x) {
  for (; rows - row >= kR; row += kR) multiply_tile<kR, kC, kCount, T>(tokens, x.from_row(row), row == 0);
  if constexpr (kR > 1) {
    if (rows > row) multiply_tiles<kR / 2, kC, kCount, T>(row, rows, tokens, x);
  }
}

/// All columns, kC vectors at a time, then one vector at a time, then in ever smaller vectors.
template <int kC, int kCount, class T>
void multiply_columns(int64_t rows, int64_t width, int64_t tokens, RecurrenceOperands<T> x) {
  const bool one_more = rows % kTileRows == 1 && rows > 1;
  for (; width >= kC * kCount; width -= kC * kCount, x = x.from_column(kC * kCount)) {
    if (one_more) multiply_tile<kTileRows + 1, kC, kCount, T>(tokens, x, true);
    multiply_tiles<kTileRows, kC, kCount, T>(one_more ? kTileRows + 1 : 0, rows, tokens, x);
  }
  if (width == 0) return;
  if constexpr (kC > 1) {
    multiply_columns<1, kCount, T>(rows, width, tokens, x);
  } else if constexpr (kCount > 1) {
    multiply_columns<1, kCount / 2, T>(rows, width, tokens, x);
  }
}

}  // namespace recurrence

/// For each token in order: s += a_nᵀ·b_n, then out_n = q_n·s. Shapes: a and q [tokens, rows], b and out
/// [tokens, width], s [rows, width].
template <class T>
void causal_product(int64_t rows, int64_t width, int64_t tokens, Rows<const T> a, Rows<const T> b, Rows<const T> q,
                    Rows<T> s, Rows<T> out) {
  const int64_t tokens_in_cache = recurrence::kCacheBytes / (2 * rows * static_cast<int64_t>(sizeof(T)));
  const product::EvenSplit split(tokens, std::max(tokens_in_cache, int64_t{1}));
  for (int64_t i = 0; i < split.count; ++i) {
    const int64_t n = split.begin(i);
    recurrence::multiply_columns<recurrence::kVectors, product::kLanes<T>, T>(
        rows, width, split.size(i), {a.from(n), b.from(n), q.from(n), s, out.from(n)});
  }
}

}  // namespace linnet::cpu::LINNET_ISA
