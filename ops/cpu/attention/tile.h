#pragma once

#include <algorithm>
#include <limits>

#include <linnet/core/device/backend.h>
#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/device/vector_math.h>

/// What quadratic attention does with a tile of scores, [keys, queries]: a row holds the scores of one key with all
/// queries of a block, so that sums over the keys run down the columns, vector by vector.

namespace linnet::cpu::LINNET_ISA {

/// Queries of a block and keys of a tile: its scores, 32 KiB of float32, stay in the nearest caches.
constexpr int64_t kQueries = 64, kKeys = 128;

/// Where queries see different numbers of keys, so many are handled together: the longest vector.
template <class T>
constexpr int64_t kStrip = 64 / sizeof(T);

/// A tile's rows have room for whole strips of queries; what is beyond the last query is never used.
template <class T>
int64_t padded(int64_t queries) {
  return round_up(queries, kStrip<T>);
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

/// Scores, weights or their gradients.
template <class T>
struct Tile {
  T* data;
  int64_t keys, width;
  /// How many queries, of the first ones, do not see a key, never fewer than of the key before; null where all
  /// queries see all keys.
  const int64_t* hidden;

  T* operator[](int64_t j) const { return data + j * width; }

  /// How many keys any query of the strip from `c` on sees; others are left out of what follows.
  int64_t seen(int64_t c) const { return std::lower_bound(hidden, hidden + keys, c + kStrip<T>) - hidden; }

  /// Calls `f(j, row, c, count)` for the queries [c, c + count), with a count that is a constant when the block is a
  /// whole one or queries go in strips.
  /// Flattened: g++ leaves an f of this many calls out of line else, and its exponentials are then not made in
  /// vectors.
  template <class F>
  [[gnu::flatten]] void for_each_row(F f) const {
    const auto rows = [&](int64_t c, auto count, int64_t end) {
      for (int64_t j = 0; j < end; ++j) f(j, (*this)[j], c, count);
    };
    if (hidden != nullptr) {
      for (int64_t c = 0; c < width; c += kStrip<T>) rows(c, std::integral_constant<int64_t, kStrip<T>>{}, seen(c));
    } else if (width == kQueries) {
      rows(0, std::integral_constant<int64_t, kQueries>{}, keys);
    } else {
      rows(0, width, keys);
    }
  }

  /// Writes `value` where a key is not seen.
  void hide(T value) const {
    if (hidden == nullptr) return;
    for (int64_t j = 0; j < keys; ++j) {
      T* row = (*this)[j];
      const int64_t whole = hidden[j] / kStrip<T> * kStrip<T>;
      for (int64_t c = 0; c < whole; c += kStrip<T>) std::fill_n(row + c, kStrip<T>, value);
      if (whole == hidden[j]) continue;
#pragma omp simd
      for (int64_t c = whole; c < whole + kStrip<T>; ++c) row[c] = c < hidden[j] ? value : row[c];
    }
  }

  /// out[c] = f(…f(f(start, s_0c), s_1c)…) with f of vectors.
  template <class F>
  void fold_columns(T start, T* out, F f) const {
    constexpr int64_t kLanes = product::kLanes<T>, kTogether = 4 * kLanes;
    if (hidden != nullptr) {
      for (int64_t c = 0; c < width; c += kStrip<T>) fold_vectors<kStrip<T> / kLanes>(c, seen(c), start, out, f);
    } else if (width % kTogether == 0) {
      for (int64_t c = 0; c < width; c += kTogether) fold_vectors<4>(c, keys, start, out, f);
    } else {
      for (int64_t c = 0; c < width; c += kLanes) fold_vectors<1>(c, keys, start, out, f);
    }
  }
  void sum_columns(T* out) const {
    fold_columns(T{0}, out, [](auto sum, auto s) { return sum + s; });
  }

 private:
  template <int kVectors, class F>
  void fold_vectors(int64_t c, int64_t end, T start, T* out, F f) const {
    using V = product::VectorOf<T, product::kLanes<T>>;
    V value[kVectors];
#pragma GCC unroll 8
    for (V& v : value) v = V{} + start;
    for (int64_t j = 0; j < end; ++j) {
#pragma GCC unroll 8
      for (int l = 0; l < kVectors; ++l) {
        value[l] = f(value[l], *reinterpret_cast<const V*>((*this)[j] + c + l * product::kLanes<T>));
      }
    }
#pragma GCC unroll 8
    for (int l = 0; l < kVectors; ++l) *reinterpret_cast<V*>(out + c + l * product::kLanes<T>) = value[l];
  }
};

/// What has been added up for each query of a block: its weights so far, and what softmax subtracts from the scores.
template <class T>
struct Totals {
  T total[kQueries] = {};
  T maximum[kQueries];
  /// By how much what was summed before the last tile has shrunk, as its maximum has grown.
  T shrunk[kQueries];

  Totals() { std::fill_n(maximum, kQueries, std::numeric_limits<T>::lowest()); }
};

/// e^s = 2^(s·log2 e): the scores of softmax come multiplied with log2 e, which costs nothing, and powers of 2 cost
/// half of what those of e do.
constexpr double kLog2E = 1.4426950408889634;

/// Scores to weights 2^(s − max), with the maximum of all tiles up to this one (Milakov and Gimelshein 2018).
template <class T>
void weigh_softmax(const Tile<T>& s, Totals<T>& sums) {
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
    sums.shrunk[c] = vec::exp2_below_one(sums.maximum[c] - maximum[c]);
    sums.total[c] = sums.total[c] * sums.shrunk[c] + total[c];
    sums.maximum[c] = maximum[c];
  }
}

/// Scores to weights: f(s) = a0 + a1 s + a2 s² (Gerami et al. 2024, eq. 8).
template <class T>
void weigh_polynomial(const Tile<T>& s, Totals<T>& sums, const AttentionKind& kind) {
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

/// The same with dropout of whole queries and keys: what f adds to a0 is multiplied by both tokens' factors.
template <class T>
void weigh_dropped(const Tile<T>& s, Totals<T>& sums, const AttentionKind& kind, const T* query_factors,
                   const T* key_factors, bool shared) {
  const T a0 = static_cast<T>(kind.a0), a1 = static_cast<T>(kind.a1), a2 = static_cast<T>(kind.a2);
  T total[kQueries] = {};
  s.for_each_row([&](int64_t j, T* row, int64_t first, auto count) {
    const int64_t hidden = s.hidden != nullptr ? s.hidden[j] : 0;
#pragma omp simd
    for (int64_t c = first; c < first + count; ++c) {
      const T rest = row[c] * (a1 + row[c] * a2);
      row[c] = a0 + rest * (query_factors[c] * key_factors[j]);
      total[c] += c < hidden ? T{0} : shared ? row[c] : a0 + rest;
    }
  });
  s.hide(T{0});
  for (int64_t c = 0; c < s.width; ++c) sums.total[c] += total[c];
}

/// What backward knows of each query of a block.
template <class T>
struct Slopes {
  T delta[kQueries] = {};   ///< d_o·o
  T denominator[kQueries];  ///< of softmax max + log2 Σ 2^(s − max); else what the weights are divided by
  Slopes() { std::fill_n(denominator, kQueries, T{1}); }
};

/// Turns scores s into normalised weights p, and products ds = d_o·v (times dropout) into `scale` times the gradients
/// of the scores.
///   softmax:     ∂s_j = p_j (d_o·v_j − delta),  p_j = 2^(s_j − normaliser)
///   polynomial:  ∂s_j = (a1 + 2 a2 s_j) (d_o·v_j − delta) / g
template <class T>
void score_gradients(const Tile<T>& s, const Tile<T>& ds, const Slopes<T>& at, T scale, const AttentionKind& kind) {
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

/// The same for `weigh_dropped`, whose denominator sees the factors when it is shared.
template <class T>
void dropped_score_gradients(const Tile<T>& s, const Tile<T>& ds, const Slopes<T>& at, T scale,
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
