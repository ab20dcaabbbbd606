#pragma once

#include <algorithm>
#include <limits>

#include <linnet/core/device/backend.h>
#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/device/vector_math.h>

/// The arithmetic on a tile of scores, [keys, queries]: scores to weights, and weights to gradients. A row holds the
/// scores of one key with all queries of the tile, so that sums over keys run down the columns and are vectorised.

namespace linnet::cpu::LINNET_ISA {

/// Queries and keys of a tile. Its scores, 32 KiB of float32, stay in the L1 or L2 cache.
constexpr int64_t kQueries = 64, kKeys = 128;

/// How many queries are processed together where they see different keys: the longest vector register.
template <class T>
constexpr int64_t kQueryStep = 64 / sizeof(T);

/// The length of a tile's rows: `queries` rounded up to whole steps. Elements beyond the last query are never used.
template <class T>
int64_t padded(int64_t queries) {
  return round_up(queries, kQueryStep<T>);
}

template <class T>
void scale_by(T* x, T factor, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] *= factor;
}

template <class T>
void add(T* x, const T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) x[i] += y[i];
}

/// A tile of scores, weights or their gradients.
template <class T>
struct ScoreTile {
  T* data;
  int64_t keys, width;
  /// Queries [first_seeing[j], end_seeing[j]) see key j; neither decreases with j. Both are null where all queries
  /// see all keys. `end_seeing` alone is null where all later queries see a key too.
  const int64_t* first_seeing;
  const int64_t* end_seeing;

  T* operator[](int64_t j) const { return data + j * width; }

  int64_t first_of(int64_t j) const { return first_seeing == nullptr ? 0 : first_seeing[j]; }
  int64_t end_of(int64_t j) const { return end_seeing == nullptr ? width : end_seeing[j]; }

  /// The end of the keys that at least one of the kQueryStep queries from `c` on sees.
  int64_t seen(int64_t c) const {
    return std::lower_bound(first_seeing, first_seeing + keys, c + kQueryStep<T>) - first_seeing;
  }
  /// The first key that at least one of them sees.
  int64_t first_seen(int64_t c) const {
    return end_seeing == nullptr ? 0 : std::upper_bound(end_seeing, end_seeing + keys, c) - end_seeing;
  }

  /// Calls `f(j, row, c, count)` for key j and the queries [c, c + count). `count` is a compile-time constant except
  /// in a last tile of fewer queries that all see all keys. Flattened: otherwise g++ does not inline `f`, and its
  /// exponentials are not vectorised.
  template <class F>
  [[gnu::flatten]] void for_each_row(F f) const {
    const auto rows = [&](int64_t c, auto count, int64_t first, int64_t end) {
      for (int64_t j = first; j < end; ++j) f(j, (*this)[j], c, count);
    };
    if (first_seeing != nullptr) {
      for (int64_t c = 0; c < width; c += kQueryStep<T>)
        rows(c, std::integral_constant<int64_t, kQueryStep<T>>{}, first_seen(c), seen(c));
    } else if (width == kQueries) {
      rows(0, std::integral_constant<int64_t, kQueries>{}, 0, keys);
    } else {
      rows(0, width, 0, keys);
    }
  }

  /// Writes `value` where a query does not see a key.
  void hide(T value) const {
    if (first_seeing == nullptr) return;
    for (int64_t j = 0; j < keys; ++j) {
      T* row = (*this)[j];
      if (end_seeing != nullptr) std::fill(row + std::min(end_seeing[j], width), row + width, value);
      const int64_t whole = first_seeing[j] / kQueryStep<T> * kQueryStep<T>;
      for (int64_t c = 0; c < whole; c += kQueryStep<T>) std::fill_n(row + c, kQueryStep<T>, value);
      if (whole == first_seeing[j]) continue;
#pragma omp simd
      for (int64_t c = whole; c < whole + kQueryStep<T>; ++c) row[c] = c < first_seeing[j] ? value : row[c];
    }
  }

  /// out[c] = f(…f(f(start, s_0c), s_1c)…) over the keys, for each query c; f works on vectors.
  template <class F>
  void fold_columns(T start, T* out, F f) const {
    constexpr int64_t kLanes = product::kLanes<T>, kColumns = 4 * kLanes;
    if (first_seeing != nullptr) {
      for (int64_t c = 0; c < width; c += kQueryStep<T>)
        fold_vectors<kQueryStep<T> / kLanes>(c, first_seen(c), seen(c), start, out, f);
    } else if (width % kColumns == 0) {
      for (int64_t c = 0; c < width; c += kColumns) fold_vectors<4>(c, 0, keys, start, out, f);
    } else {
      for (int64_t c = 0; c < width; c += kLanes) fold_vectors<1>(c, 0, keys, start, out, f);
    }
  }
  void sum_columns(T* out) const {
    fold_columns(T{0}, out, [](auto sum, auto s) { return sum + s; });
  }

 private:
  template <int kVectors, class F>
  void fold_vectors(int64_t c, int64_t first, int64_t end, T start, T* out, F f) const {
    using V = product::VectorOf<T, product::kLanes<T>>;
    V value[kVectors];
#pragma GCC unroll 8
    for (V& v : value) v = V{} + start;
    for (int64_t j = first; j < end; ++j) {
#pragma GCC unroll 8
      for (int l = 0; l < kVectors; ++l) {
        value[l] = f(value[l], *reinterpret_cast<const V*>((*this)[j] + c + l * product::kLanes<T>));
      }
    }
#pragma GCC unroll 8
    for (int l = 0; l < kVectors; ++l) *reinterpret_cast<V*>(out + c + l * product::kLanes<T>) = value[l];
  }
};

/// The sum of each query's weights and its largest score, over the tiles so far.
template <class T>
struct Totals {
  T total[kQueries] = {};
  T maximum[kQueries];
  /// 2^(m − m') for the maximum m before the last tile and m' after it: the factor of the sums before.
  T rescale[kQueries];

  Totals() { std::fill_n(maximum, kQueries, std::numeric_limits<T>::lowest()); }

  /// Starts from the stored denominators m + log2 Σ 2^(s − m) of `queries` queries of softmax, whose outputs are
  /// already divided by them.
  void resume(const T* denominators, int64_t queries) {
    for (int64_t r = 0; r < queries; ++r) {
      if (denominators[r] < std::numeric_limits<T>::lowest()) continue;  // −∞: no key so far
      maximum[r] = denominators[r];
      total[r] = 1;
    }
  }
};

/// e^s = 2^(s·log2 e). The scores of softmax are multiplied by log2 e as part of their scale, at no cost, and powers
/// of 2 cost half as much as powers of e.
constexpr double kLog2E = 1.4426950408889634;

/// Turns scores into weights 2^(s − max), with the maximum of all tiles so far: online softmax (Milakov & Gimelshein
/// 2018).                                                                                    [Vaswani eq.1]
template <class T>
void weigh_softmax(const ScoreTile<T>& s, Totals<T>& sums) {
  s.hide(-std::numeric_limits<T>::infinity());
  T maximum[kQueries], total[kQueries];
  s.fold_columns(std::numeric_limits<T>::lowest(), maximum, [](auto most, auto x) { return x > most ? x : most; });
  for (int64_t c = 0; c < s.width; ++c) maximum[c] = std::max(maximum[c], sums.maximum[c]);
  s.for_each_row([&](int64_t, T* row, int64_t first, auto count) {
#pragma omp simd
    for (int64_t c = first; c < first + count; ++c) row[c] = vec::exp2_below_one(row[c] - maximum[c]);
  });
  s.sum_columns(total);
#pragma omp simd
  for (int64_t c = 0; c < s.width; ++c) {
    sums.rescale[c] = vec::exp2_below_one(sums.maximum[c] - maximum[c]);
    sums.total[c] = sums.total[c] * sums.rescale[c] + total[c];
    sums.maximum[c] = maximum[c];
  }
}

/// Turns scores into weights f(s) = a0 + a1 s + a2 s².                                           [FAST eq.8]
template <class T>
void weigh_polynomial(const ScoreTile<T>& s, Totals<T>& sums, const AttentionKind& kind) {
  const T a0 = static_cast<T>(kind.a0), a1 = static_cast<T>(kind.a1), a2 = static_cast<T>(kind.a2);
  s.for_each_row([&](int64_t, T* row, int64_t first, auto count) {
#pragma omp simd
    for (int64_t c = first; c < first + count; ++c) row[c] = a0 + row[c] * (a1 + row[c] * a2);
  });
  s.hide(T{0});
  T total[kQueries];
  s.sum_columns(total);
  for (int64_t c = 0; c < s.width; ++c) sums.total[c] += total[c];
}

/// `weigh_polynomial` with token dropout: f(s) = a0 + (a1 s + a2 s²) · query factor · key factor.       [FAST eq.8]
template <class T>
void weigh_dropped(const ScoreTile<T>& s, Totals<T>& sums, const AttentionKind& kind, const T* query_factors,
                   const T* key_factors, bool shared) {
  const T a0 = static_cast<T>(kind.a0), a1 = static_cast<T>(kind.a1), a2 = static_cast<T>(kind.a2);
  T total[kQueries] = {};
  s.for_each_row([&](int64_t j, T* row, int64_t first, auto count) {
    const int64_t first_seeing = s.first_of(j), end_seeing = s.end_of(j);
#pragma omp simd
    for (int64_t c = first; c < first + count; ++c) {
      const T rest = row[c] * (a1 + row[c] * a2);
      row[c] = a0 + rest * (query_factors[c] * key_factors[j]);
      total[c] += c < first_seeing || c >= end_seeing ? T{0} : shared ? row[c] : a0 + rest;
    }
  });
  s.hide(T{0});
  for (int64_t c = 0; c < s.width; ++c) sums.total[c] += total[c];
}

/// Two numbers of each query that backward needs.
template <class T>
struct QueryFactors {
  T delta[kQueries] = {};   ///< d_o·o
  T denominator[kQueries];  ///< softmax: max + log2 Σ 2^(s − max); polynomial: Σ f(s)
  QueryFactors() { std::fill_n(denominator, kQueries, T{1}); }
};

/// Turns scores s into normalised weights p, and products ds = d_o·v (times dropout) into `scale` times the gradients
/// of the scores.
///   softmax:     p_j = 2^(s_j − denominator),  ∂s_j = p_j (d_o·v_j − delta)         the gradient of [Vaswani eq.1]
///   polynomial:  p_j = f(s_j) / g,  ∂s_j = (a1 + 2 a2 s_j) (d_o·v_j − delta) / g        [FAST eq.7] [FAST eq.15]
template <class T>
void score_gradients(const ScoreTile<T>& s, const ScoreTile<T>& ds, const QueryFactors<T>& at, T scale,
                     const AttentionKind& kind) {
  if (kind.softmax) {
    s.for_each_row([&](int64_t j, T* weight, int64_t first, auto count) {
      T* gradient = ds[j];
#pragma omp simd
      for (int64_t c = first; c < first + count; ++c) {
        weight[c] = vec::exp2_below_one(weight[c] - at.denominator[c]);
        gradient[c] = weight[c] * (gradient[c] - at.delta[c]) * scale;
      }
    });
  } else {
    const T a0 = static_cast<T>(kind.a0), a1 = static_cast<T>(kind.a1), a2 = static_cast<T>(kind.a2);
    T inverse[kQueries];
    for (int64_t c = 0; c < kQueries; ++c) inverse[c] = 1 / at.denominator[c];
    s.for_each_row([&](int64_t j, T* weight, int64_t first, auto count) {
      T* gradient = ds[j];
#pragma omp simd
      for (int64_t c = first; c < first + count; ++c) {
        gradient[c] = (a1 + 2 * a2 * weight[c]) * (gradient[c] - at.delta[c]) * (inverse[c] * scale);
        weight[c] = (a0 + weight[c] * (a1 + weight[c] * a2)) * inverse[c];
      }
    });
  }
  s.hide(T{0});
  ds.hide(T{0});
}

/// `score_gradients` for `weigh_dropped`; with a shared denominator, the denominator has the dropout factors too.
template <class T>
void dropped_score_gradients(const ScoreTile<T>& s, const ScoreTile<T>& ds, const QueryFactors<T>& at, T scale,
                             const AttentionKind& kind, const T* query_factors, const T* key_factors, bool shared) {
  const T a0 = static_cast<T>(kind.a0), a1 = static_cast<T>(kind.a1), a2 = static_cast<T>(kind.a2);
  s.for_each_row([&](int64_t j, T* weight, int64_t first, auto count) {
    T* gradient = ds[j];
#pragma omp simd
    for (int64_t c = first; c < first + count; ++c) {
      const T kept = query_factors[c] * key_factors[j], inverse = 1 / at.denominator[c];
      const T mean = (shared ? kept : T{1}) * at.delta[c];
      gradient[c] = (a1 + 2 * a2 * weight[c]) * (kept * gradient[c] - mean) * (inverse * scale);
      weight[c] = (a0 + weight[c] * (a1 + weight[c] * a2) * kept) * inverse;
    }
  });
  s.hide(T{0});
  ds.hide(T{0});
}

}  // namespace linnet::cpu::LINNET_ISA
