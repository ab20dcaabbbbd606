#pragma once

#include <linnet/ops/cpu/device/row_sums.h>
#include <linnet/ops/cpu/fastmax/features.h>

/// Causal Fastmax between the tokens of one chunk, in quadratic form: query i sees keys j ≤ i.

namespace linnet::cpu::LINNET_ISA {

/// Some tokens of one head as terms of a sum Σ_n φ(x_n) [y_n, t_n]ᵀ. Keys have y = v and t = 1. Queries have
/// y = ∂L/∂F_i = ∂L/∂o_i / g_i and t = ∂L/∂g_i = −(∂L/∂o_i · o_i) / g_i.
template <class T>
struct Terms {
  AugmentedTokens<T> x;
  Scratch<T> memory;
  T* t;               // [size]
  T* factors;         // [size], of token dropout
  T* scratch;         // [size, D]
  Rows<const T> y{};  // [size, D], in `scratch` or in the tensor
  T* y_columns;       // [D, size], y transposed; null where not wanted

  Terms(int64_t width, int64_t capacity, bool with_columns)
      : x(width, capacity),
        memory(capacity * (2 + width + (with_columns ? width : 0))),
        t(memory.data()),
        factors(t + capacity),
        scratch(factors + capacity),
        y_columns(with_columns ? scratch + capacity * width : nullptr) {}
};

/// Attention between one side's tokens, `own`, and the other side's, `others`. A tile of scores is [others, own], so
/// that sums over the others run down its columns, for queries and for keys. A tile on the diagonal is computed in
/// ranges of rows. These leave out most pairs that do not see each other; the rest of them are set to 0.
template <class T>
class IntraChunk {
 public:
  /// If `dropped`, weights are products of dropped features. The chunk is then one tile, and `weights` [others, own]
  /// are its weights, or null if they are not needed.
  IntraChunk(const FastmaxParams& f, bool queries, const Terms<T>& own, const Terms<T>& others, bool dropped,
             const T* weights)
      : f_(f),
        a0_(static_cast<T>(f.a0)),
        a1_(static_cast<T>(f.a1)),
        a2_(static_cast<T>(f.a2)),
        queries_(queries),
        own_(own),
        others_(others),
        dropped_(dropped),
        weights_(weights),
        width_(own.x.width()),
        tiles_(f.causal ? 2 * kTile * kTile : 0),
        s_(tiles_.data()),
        ds_(f.causal ? s_ + kTile * kTile : nullptr) {}

  /// Adds to the numerators F [size, D] and denominators g [size] of the queries.       [FAST eq.30] [FAST eq.31]
  void attend(T* numerators, T* denominators) const {
    for_each_pair([&](const TilePair& pair) {
      multiply_scores(pair);
      weigh(pair, denominators + pair.own);
      // A weight of 0 times an infinite value would be NaN, so then each query reads only the values that it sees.
      const Rows<const T> y = others_.y.from(pair.other);
      for_each_row_range(pair.diagonal() && !all_finite(y, kTile, width_) ? 1 : kRangeRows,
                         [&](int64_t first, int64_t count) {
                           sum_values(pair, first, count, {numerators + pair.own * width_, width_});
                         });
    });
  }

  /// Adds the gradients of x̃ to dx [1 + D, size] and, for keys, those of the values to dy [size, D].
  void differentiate(T* dx, Rows<T> dy) const {
    const int64_t size = own_.x.size();
    for_each_pair([&](const TilePair& pair) {
      multiply_scores(pair);
      multiply_cotangents(pair, ds_);
      differentiate_scores(pair);
      for_each_row_range(kRangeRows, [&](int64_t first, int64_t count) {
        const Range rows = rows_for(pair, first, count);
        tile_product<T>(width_, count, rows.size(), {others_.x.row(1) + pair.other + rows.begin, size, 1},
                        {ds_ + rows.begin * kTile + first, kTile}, {dx + size + pair.own + first, size}, true);
        if (!queries_) sum_values(pair, first, count, dy.from(pair.own));
      });
    });
  }

  /// out [kTile, kTile] = ∂L/∂w_ij for the dropped weights of a chunk of one tile, 0 where j > i.
  void dropped_cotangents(T* out) const {
    const TilePair pair{0, 0};
    multiply_cotangents(pair, out);
    for (int64_t r = 0; r < kTile; ++r, out += kTile) {
      const T shared = f_.shared_denominator ? others_.t[r] : T{0};
      const Range seen = columns_for(pair, r, 1);
      std::fill_n(out, seen.begin, T{0});
      for (int64_t c = seen.begin; c < seen.end; ++c) out[c] += shared * own_.t[c];
      std::fill(out + seen.end, out + kTile, T{0});
    }
  }

 private:
  static constexpr int64_t kRangeRows = 16;

  struct Range {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
  };

  /// A tile of own tokens and a tile of others, by their first tokens.
  struct TilePair {
    int64_t own, other;
    bool diagonal() const { return own == other; }
  };

  template <class F>
  void for_each_pair(F f) const {
    for (int64_t own = 0; own < own_.x.size(); own += kTile) {
      const int64_t begin = queries_ ? 0 : own, end = queries_ ? own + kTile : own_.x.size();
      for (int64_t other = begin; other < end; other += kTile) f(TilePair{own, other});
    }
  }

  template <class F>
  static void for_each_row_range(int64_t count, F f) {
    for (int64_t first = 0; first < kTile; first += count) f(first, count);
  }

  /// The own tokens that see, or are seen by, at least one of `count` others from `row` on.
  Range columns_for(const TilePair& pair, int64_t row, int64_t count) const {
    if (!pair.diagonal()) return {0, kTile};
    return queries_ ? Range{row, kTile} : Range{0, row + count};
  }
  /// The others that see, or are seen by, at least one of `count` own tokens from `column` on.
  Range rows_for(const TilePair& pair, int64_t column, int64_t count) const {
    if (!pair.diagonal()) return {0, kTile};
    return queries_ ? Range{0, column + count} : Range{column, kTile};
  }

  /// s_ij = x_i·x_j
  void multiply_scores(const TilePair& pair) const {
    multiply(pair, {others_.x.row(1) + pair.other, 1, others_.x.size()}, own_.x.row(1), s_);
  }
  /// out_ij = y_i·v_j
  void multiply_cotangents(const TilePair& pair, T* out) const {
    multiply(pair, {others_.y[pair.other], others_.y.stride, 1}, own_.y_columns, out);
  }

  /// out [others, own] = others [others, D] · factors [D, size], for pairs that see each other.
  void multiply(const TilePair& pair, Matrix<T> others, const T* factors, T* out) const {
    for_each_row_range(kRangeRows, [&](int64_t first, int64_t count) {
      const Range columns = columns_for(pair, first, count);
      tile_product<T>(count, columns.size(), width_, others.from(first, 0),
                      {factors + pair.own + columns.begin, own_.x.size()},
                      {out + first * kTile + columns.begin, kTile}, false);
    });
  }

  /// out[own] += Σ_others w·y for `count` own tokens of a tile.
  void sum_values(const TilePair& pair, int64_t first, int64_t count, Rows<T> out) const {
    const Range rows = rows_for(pair, first, count);
    tile_product<T>(count, width_, rows.size(), {s_ + rows.begin * kTile + first, 1, kTile},
                    others_.y.from(pair.other + rows.begin), out.from(first), true);
  }

  /// Calls `f(row, columns, seen)` for each of the others: the columns that were computed for its range of rows, and
  /// those of them that it sees or is seen by.
  template <class F>
  void for_each_row(const TilePair& pair, F f) const {
    for_each_row_range(kRangeRows, [&](int64_t first, int64_t count) {
      for (int64_t r = first; r < first + count; ++r) f(r, columns_for(pair, first, count), columns_for(pair, r, 1));
    });
  }

  /// Turns scores into weights f(s) = a0 + a1·s + a2·s², and adds their sums to the denominators.     [FAST eq.8]
  void weigh(const TilePair& pair, T* denominators) const {
    const bool shared = f_.shared_denominator, made = weights_ != nullptr;
    const T *factors = own_.factors + pair.own, *real = own_.x.row(0) + pair.own;
    T total[kTile] = {};
    for_each_row(pair, [&](int64_t r, Range columns, Range seen) {
      const T factor = others_.factors[pair.other + r], constant = a0_ * others_.x.row(0)[pair.other + r];
      T* s = s_ + r * kTile;
      const T* from_features = made ? weights_ + r * kTile : s;
#pragma omp simd
      for (int64_t c = columns.begin; c < columns.end; ++c) {
        const T first = constant * real[c], rest = s[c] * (a1_ + s[c] * a2_);
        const T weight = made ? from_features[c] : first + rest * (factor * factors[c]);
        const bool counts = c >= seen.begin && c < seen.end;
        s[c] = counts ? weight : T{0};
        total[c] += counts ? (shared ? weight : first + rest) : T{0};
      }
    });
    for (int64_t c = 0; c < kTile; ++c) denominators[c] += total[c];
  }

  /// Turns the scores in s_ into weights, and the products y_i·v_j in ds_ into gradients of the scores:
  ///   ∂s_ij = f'(s_ij) (y_i·v_j + t_i),  f'(s) = a1 + 2·a2·s                                     [FAST eq.15]
  void differentiate_scores(const TilePair& pair) const {
    const bool made = weights_ != nullptr;
    // Where single features are dropped, the gradients of the weights go through the features instead.
    const T through_weights = dropped_ ? 0 : 1;
    const T shared = f_.shared_denominator ? through_weights : T{0}, clean = f_.shared_denominator ? T{0} : T{1};
    const T *factors = own_.factors + pair.own, *real = own_.x.row(0) + pair.own, *t = own_.t + pair.own;
    for_each_row(pair, [&](int64_t r, Range columns, Range seen) {
      const int64_t other = pair.other + r;
      const T factor = others_.factors[other], constant = a0_ * others_.x.row(0)[other];
      const T shared_t = shared * others_.t[other], clean_t = clean * others_.t[other];
      T *s = s_ + r * kTile, *ds = ds_ + r * kTile;
      const T* from_features = made ? weights_ + r * kTile : s;
#pragma omp simd
      for (int64_t c = columns.begin; c < columns.end; ++c) {
        const T kept = factor * factors[c];
        const T weight = made ? from_features[c] : constant * real[c] + s[c] * (a1_ + s[c] * a2_) * kept;
        const T slope = a1_ + 2 * a2_ * s[c];
        const T gradient = slope * (kept * (through_weights * ds[c] + shared_t * t[c]) + clean_t * t[c]);
        const bool counts = c >= seen.begin && c < seen.end;
        s[c] = counts ? weight : T{0};
        ds[c] = counts ? gradient : T{0};
      }
    });
  }

  const FastmaxParams& f_;
  T a0_, a1_, a2_;
  bool queries_;
  const Terms<T>& own_;
  const Terms<T>& others_;
  bool dropped_;
  const T* weights_;
  int64_t width_;
  Scratch<T> tiles_;
  T *s_, *ds_;  // [others, own]
};

}  // namespace linnet::cpu::LINNET_ISA
