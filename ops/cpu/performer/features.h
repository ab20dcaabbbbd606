#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include <linnet/ops/cpu/device/row_sums.h>
#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/device/vector_math.h>

/// The features of FAVOR+ (Choromanski et al. 2021, lemma 1), by their logarithms to base 2: with x' = x/D^¼,
///   keys:    b_r = (ω_r·x' − ‖x'‖²/2) / ln 2
///   queries: a_r = ω_r·x' / ln 2, because ‖x'‖² cancels in the result
/// A feature is relative to an integer exponent: 2^(b_r − M_r) for keys, 2^(a_r + M_r − c) for queries. M_r is the
/// largest nearest(b_r) of the keys that count, and c = max_r(nearest(a_r) + M_r). So no feature is above √2. Since
/// factors of a power of two are exact, no digit of a result depends on M and c; in particular, none depends on the
/// keys after a causal query.

namespace linnet::cpu::LINNET_ISA {

/// Ω in the layouts of both passes. The number of features is padded to whole vector registers; the added ones have
/// the exponent 0 and the value 0.
template <class T>
class PerformerFeatures {
 public:
  explicit PerformerFeatures(const View& omega)
      : real_(omega.shape[0]),
        width_(omega.shape[1]),
        count_(round_up(real_, product::kLanes<T>)),
        scale_(std::pow(static_cast<double>(width_), -0.25)),
        memory_(2 * count_ * width_),
        by_entry_{memory_.data(), count_},
        by_feature_{by_entry_[width_], width_} {
    const T* from = data<T>(omega);
    for (int64_t r = 0; r < count_; ++r) {
      for (int64_t d = 0; d < width_; ++d) {
        const double value = r < real_ ? scale_ * static_cast<double>(from[r * width_ + d]) : 0;
        by_entry_[d][r] = static_cast<T>(value * kLog2E);
        by_feature_[r][d] = static_cast<T>(value);
      }
    }
  }

  int64_t count() const { return count_; }
  int64_t width() const { return width_; }

  /// Stands for −∞ where no key is seen. It is finite, so that the difference of two of them is 0 and not NaN.
  static constexpr T lowest() { return std::numeric_limits<T>::lowest() / 4; }

  /// e_n = the exponents a of queries x_n, [rows, features].
  void query_exponents(int64_t rows, Rows<const T> x, Rows<T> e) const {
    tile_product<T>(rows, count_, width_, {x.data, x.stride, 1}, by_entry_, e, false);
  }

  /// e_n = the exponents b of keys x_n.
  void key_exponents(int64_t rows, Rows<const T> x, Rows<T> e) const {
    query_exponents(rows, x, e);
    const T factor = static_cast<T>(scale_ * scale_ * kLog2E / 2);
    for (int64_t n = 0; n < rows; ++n) {
      const T* in = x[n];
      T square = 0;
#pragma omp simd reduction(+ : square)
      for (int64_t d = 0; d < width_; ++d) square += in[d] * in[d];
      const T norm = square * factor;
      T* out = e[n];
#pragma omp simd
      for (int64_t r = 0; r < real_; ++r) out[r] -= norm;
    }
  }

  /// Row e, the exponents of a key, becomes its features relative to M.
  void make_key(const T* most, T* e) const {
#pragma omp simd
    for (int64_t r = 0; r < real_; ++r) e[r] = vec::exp2_times(e[r], -most[r]);
    std::fill(e + real_, e + count_, T{0});
  }

  /// The shift c of a query with the exponents e.
  T shift_of(const T* most, const T* e) const {
    T c = lowest();
#pragma omp simd reduction(max : c)
    for (int64_t r = 0; r < real_; ++r) {
      const T sum = vec::nearest(e[r]) + most[r];
      c = sum > c ? sum : c;
    }
    return c;
  }

  /// Row e, the exponents of a query, becomes its features relative to M and c.
  void make_query(const T* most, T c, T* e) const {
#pragma omp simd
    for (int64_t r = 0; r < real_; ++r) e[r] = vec::exp2_times(e[r], most[r] - c);
    std::fill(e + real_, e + count_, T{0});
  }

  /// Turns g, the gradients of the features φ, into those of the exponents times ln 2, in place: g_r φ_r.
  void differentiate(int64_t rows, Rows<const T> phi, Rows<T> g) const {
    for (int64_t n = 0; n < rows; ++n) {
      const T* y = phi[n];
      T* out = g[n];
#pragma omp simd
      for (int64_t r = 0; r < count_; ++r) out[r] *= y[r];
    }
  }

  /// dx_n of queries, from g of `differentiate`.
  void query_gradients(int64_t rows, Rows<const T> g, Rows<T> dx) const {
    tile_product<T>(rows, width_, count_, {g.data, g.stride, 1}, by_feature_, dx, false);
  }

  /// dx_n of keys x_n, from g of `differentiate`.
  void key_gradients(int64_t rows, Rows<const T> g, Rows<const T> x, Rows<T> dx) const {
    query_gradients(rows, g, dx);
    const T factor = static_cast<T>(scale_ * scale_);
    for (int64_t n = 0; n < rows; ++n) {
      const T *from = g[n], *in = x[n];
      T total = 0;
#pragma omp simd reduction(+ : total)
      for (int64_t r = 0; r < count_; ++r) total += from[r];
      total *= factor;
      T* out = dx[n];
#pragma omp simd
      for (int64_t d = 0; d < width_; ++d) out[d] -= total * in[d];
    }
  }

 private:
  static constexpr double kLog2E = 1.4426950408889634;

  int64_t real_, width_, count_;
  double scale_;  // D^−¼
  Scratch<T> memory_;
  Rows<T> by_entry_;    // [D, features], for exponents
  Rows<T> by_feature_;  // [features, D], for gradients
};

/// most_r = max(most_r, nearest(e_r))
template <class T>
void raise(int64_t count, T* most, const T* e) {
#pragma omp simd
  for (int64_t r = 0; r < count; ++r) {
    const T x = vec::nearest(e[r]);
    most[r] = x > most[r] ? x : most[r];
  }
}

/// factor_r = 2^(before_r − after_r), which makes sums relative to the exponents `before` relative to `after`;
/// `after` is not below `before`. Returns whether any factor is not 1.
template <class T>
bool rescale_factors(int64_t count, const T* before, const T* after, T* factor) {
  T least = 1;
#pragma omp simd reduction(min : least)
  for (int64_t r = 0; r < count; ++r) {
    factor[r] = vec::exp2_below_one(before[r] - after[r]);
    least = factor[r] < least ? factor[r] : least;
  }
  return least < 1;
}

/// Each row of x times the factor of its feature: x [features, width].
template <class T>
void rescale_rows(int64_t count, int64_t width, const T* factor, Rows<T> x) {
  for (int64_t r = 0; r < count; ++r) {
    if (factor[r] == 1) continue;
    T* row = x[r];
    const T f = factor[r];
#pragma omp simd
    for (int64_t d = 0; d < width; ++d) row[d] *= f;
  }
}

/// The same for x [width, features].
template <class T>
void rescale_columns(int64_t count, int64_t width, const T* factor, Rows<T> x) {
  for (int64_t d = 0; d < width; ++d) {
    T* row = x[d];
#pragma omp simd
    for (int64_t r = 0; r < count; ++r) row[r] *= factor[r];
  }
}

}  // namespace linnet::cpu::LINNET_ISA
