#pragma once

#include <linnet/ops/cpu/tile_product.h>

/// Products with a sum over the tokens up to one's own, token by token, as a recurrence: that takes no more
/// multiplications than with the sum over all tokens, where weights for pairs of tokens would take twice as many.
///
/// A band of the sum's rows stays in registers while the tokens go by. Each turn multiplies and adds two vectors a
/// row, and loads an element of either factor for it: both the multiplier and the loads are the bound.

namespace linnet::cpu::LINNET_ISA {

namespace recurrence {

/// Rows of a band; one more where they are the entries of a token and a 1.
constexpr int kBand = 2 * product::kRows;

template <class T>
struct Operands {
  Rows<const T> a, b, q;
  Rows<T> s, out;

  Operands from_row(int64_t r) const { return {{a.data + r, a.stride}, b, {q.data + r, q.stride}, s.from(r), out}; }
  Operands from_column(int64_t c) const {
    return {a, {b.data + c, b.stride}, q, {s.data + c, s.stride}, {out.data + c, out.stride}};
  }
};

/// kR rows by one vector. Their part of the products is the first one, or is added to that of others.
template <int kR, class V, class T>
void band(int64_t tokens, const Operands<T>& x, bool first) {
  constexpr int kSums = kR < 4 ? kR : 4;  // which do not wait for each other
  const auto vector = [](const auto* at) { return *reinterpret_cast<const V*>(at); };
  V state[kR];
#pragma GCC unroll 17
  for (int r = 0; r < kR; ++r) state[r] = vector(x.s[r]);
  for (int64_t n = 0; n < tokens; ++n) {
    const T *a = x.a[n], *q = x.q[n];
    const V b = vector(x.b[n]);
    V sums[kSums] = {};
    if (!first) sums[0] = vector(x.out[n]);
#pragma GCC unroll 17
    for (int r = 0; r < kR; ++r) {
      state[r] += a[r] * b;
      sums[r % kSums] += q[r] * state[r];
    }
#pragma GCC unroll 4
    for (int i = 1; i < kSums; ++i) sums[0] += sums[i];
    *reinterpret_cast<V*>(x.out[n]) = sums[0];
  }
#pragma GCC unroll 17
  for (int r = 0; r < kR; ++r) *reinterpret_cast<V*>(x.s[r]) = state[r];
}

/// Rows from `row` on, in bands and then in ever smaller ones.
template <int kR, class V, class T>
void bands(int64_t row, int64_t rows, int64_t tokens, const Operands<T>& x) {
  for (; rows - row >= kR; row += kR) band<kR, V, T>(tokens, x.from_row(row), row == 0);
  if constexpr (kR > 1) {
    if (rows > row) bands<kR / 2, V, T>(row, rows, tokens, x);
  }
}

/// All columns, in vectors and then in ever smaller ones.
template <int kCount, class T>
void columns(int64_t rows, int64_t width, int64_t tokens, Operands<T> x) {
  using V = product::VectorOf<T, kCount>;
  const bool one_more = rows % kBand == 1 && rows > 1;
  for (; width >= kCount; width -= kCount, x = x.from_column(kCount)) {
    if (one_more) band<kBand + 1, V, T>(tokens, x, true);
    bands<kBand, V, T>(one_more ? kBand + 1 : 0, rows, tokens, x);
  }
  if constexpr (kCount > 1) {
    if (width > 0) columns<kCount / 2, T>(rows, width, tokens, x);
  }
}

}  // namespace recurrence

/// For one token after another: s += a_nᵀ·b_n, and then out_n = q_n·s, with a and q [tokens, rows], b and out
/// [tokens, width] and s [rows, width].
template <class T>
void causal_product(int64_t rows, int64_t width, int64_t tokens, Rows<const T> a, Rows<const T> b, Rows<const T> q,
                    Rows<T> s, Rows<T> out) {
  recurrence::columns<product::kLanes<T>, T>(rows, width, tokens, {a, b, q, s, out});
}

}  // namespace linnet::cpu::LINNET_ISA
