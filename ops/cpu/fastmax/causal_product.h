#pragma once

#include <algorithm>

#include <linnet/ops/cpu/device/tile_product.h>

/// Products with a sum over the tokens up to one's own, token by token, as a recurrence: that takes no more
/// multiplications than with the sum over all tokens, where weights for pairs of tokens would take twice as many.
///
/// A band of the sum, some rows by one or two vectors, stays in registers while the tokens go by. Each turn
/// multiplies and adds twice for each of its vectors, and loads an element of either factor for each of its rows:
/// where registers are few, two vectors a row keep the loads from being the bound, and one result of each is enough,
/// since that of the next token does not wait for it. Factors a and q are read anew for every few columns, from the
/// nearest cache: where rows are long, that is for fewer tokens at a time.

namespace linnet::cpu::LINNET_ISA {

namespace recurrence {

/// Vectors of a band and its rows; one more where they are the entries of a token and a 1.
constexpr int kVectors = product::kRows == 8 ? 1 : 2;
constexpr int kBand = 2 * product::kRows / kVectors;
/// Bytes of a and q that stay in the nearest cache beside what else a band reads and writes.
constexpr int64_t kNear = 24 << 10;

template <class T>
struct Operands {
  Rows<const T> a, b, q;
  Rows<T> s, out;

  Operands from_row(int64_t r) const { return {{a.data + r, a.stride}, b, {q.data + r, q.stride}, s.from(r), out}; }
  Operands from_column(int64_t c) const {
    return {a, {b.data + c, b.stride}, q, {s.data + c, s.stride}, {out.data + c, out.stride}};
  }
};

/// kR rows by kC vectors. Their part of the products is the first one, or is added to that of others.
template <int kR, int kC, class V, class T>
void band(int64_t tokens, const Operands<T>& x, bool first) {
  constexpr int kLanes = sizeof(V) / sizeof(T);
  constexpr int kSums = kC > 1 ? 1 : std::min(kR, 4);  // which do not wait for each other
  const auto in = [](const T* at, int c) { return *reinterpret_cast<const V*>(at + c * kLanes); };
  const auto out = [](T* at, int c) -> V& { return *reinterpret_cast<V*>(at + c * kLanes); };
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

/// Rows from `row` on, in bands and then in ever smaller ones.
template <int kR, int kC, class V, class T>
void bands(int64_t row, int64_t rows, int64_t tokens, const Operands<T>& x) {
  for (; rows - row >= kR; row += kR) band<kR, kC, V, T>(tokens, x.from_row(row), row == 0);
  if constexpr (kR > 1) {
    if (rows > row) bands<kR / 2, kC, V, T>(row, rows, tokens, x);
  }
}

/// All columns, kC vectors at a time, then one by one, then in ever smaller ones.
template <int kC, int kCount, class T>
void columns(int64_t rows, int64_t width, int64_t tokens, Operands<T> x) {
  using V = product::VectorOf<T, kCount>;
  const bool one_more = rows % kBand == 1 && rows > 1;
  for (; width >= kC * kCount; width -= kC * kCount, x = x.from_column(kC * kCount)) {
    if (one_more) band<kBand + 1, kC, V, T>(tokens, x, true);
    bands<kBand, kC, V, T>(one_more ? kBand + 1 : 0, rows, tokens, x);
  }
  if (width == 0) return;
  if constexpr (kC > 1) {
    columns<1, kCount, T>(rows, width, tokens, x);
  } else if constexpr (kCount > 1) {
    columns<1, kCount / 2, T>(rows, width, tokens, x);
  }
}

}  // namespace recurrence

/// For one token after another: s += a_nᵀ·b_n, and then out_n = q_n·s, with a and q [tokens, rows], b and out
/// [tokens, width] and s [rows, width].
template <class T>
void causal_product(int64_t rows, int64_t width, int64_t tokens, Rows<const T> a, Rows<const T> b, Rows<const T> q,
                    Rows<T> s, Rows<T> out) {
  const int64_t near = recurrence::kNear / (2 * rows * static_cast<int64_t>(sizeof(T)));
  const product::Bands pieces(tokens, std::max(near, int64_t{1}));
  for (int64_t i = 0; i < pieces.count; ++i) {
    const int64_t n = pieces.begin(i);
    recurrence::columns<recurrence::kVectors, product::kLanes<T>, T>(
        rows, width, pieces.height(i), {a.from(n), b.from(n), q.from(n), s, out.from(n)});
  }
}

}  // namespace linnet::cpu::LINNET_ISA
