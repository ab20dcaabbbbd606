#pragma once

#include <algorithm>

#include <linnet/ops/cpu/performer/features.h>

namespace linnet::cpu::LINNET_ISA {

/// Sums over some tokens, relative to exponents `most` of the features. Of keys: Σ_n φ(k_n) [v_n, 1]ᵀ, relative to
/// the largest exponent of each feature among them. Of queries, for backward: Σ_i φ(q_i) [y_i, t_i]ᵀ (see
/// `Cotangents`). Transposed, so that products and factors of features run along rows.
template <class T>
struct PerformerState {
  Rows<T> sums;  // [D + 1, features]
  T* most;       // [features]
};

/// Memory for `count` states of FAVOR+.
template <class T>
class PerformerStates {
 public:
  PerformerStates(int64_t count, const PerformerFeatures<T>& features)
      : features_(features.count()), rows_(features.width() + 1), memory_(count * size(features)) {}

  /// How many numbers a state has.
  static int64_t size(const PerformerFeatures<T>& features) { return features.count() * (features.width() + 2); }

  PerformerState<T> operator[](int64_t i) const {
    T* const first = memory_.data() + i * features_ * (rows_ + 1);
    return {{first, features_}, first + features_ * rows_};
  }

  /// The state of no tokens.
  void clear(PerformerState<T> state) const {
    std::fill_n(state.sums.data, features_ * rows_, T{0});
    std::fill_n(state.most, features_, PerformerFeatures<T>::lowest());
  }

  void copy(PerformerState<T> from, PerformerState<T> to) const {
    std::copy_n(from.sums.data, features_ * (rows_ + 1), to.sums.data);
  }

  /// Adds the sums of keys of `other` to `into`, relative to the larger exponents of both.
  void merge(PerformerState<T> into, PerformerState<T> other) const {
    Scratch<T> factors(2 * features_);
    T *of_into = factors.data(), *of_other = of_into + features_;
#pragma omp simd
    for (int64_t r = 0; r < features_; ++r) {
      const T most = into.most[r] > other.most[r] ? into.most[r] : other.most[r];
      of_into[r] = vec::exp2_below_one(into.most[r] - most);
      of_other[r] = vec::exp2_below_one(other.most[r] - most);
      into.most[r] = most;
    }
    add_scaled(into, of_into, other, of_other);
  }

  /// Makes the sums of queries `into` relative to the exponents of `other`, which are not above its own, and adds the
  /// sums of `other`.
  void carry_back(PerformerState<T> into, PerformerState<T> other) const {
    Scratch<T> factors(2 * features_);
    T *of_into = factors.data(), *ones = of_into + features_;
    rescale_factors(features_, other.most, into.most, of_into);
    std::fill_n(ones, features_, T{1});
    std::copy_n(other.most, features_, into.most);
    add_scaled(into, of_into, other, ones);
  }

 private:
  void add_scaled(PerformerState<T> into, const T* of_into, PerformerState<T> other, const T* of_other) const {
    for (int64_t d = 0; d < rows_; ++d) {
      T* sum = into.sums[d];
      const T* x = other.sums[d];
#pragma omp simd
      for (int64_t r = 0; r < features_; ++r) sum[r] = sum[r] * of_into[r] + x[r] * of_other[r];
    }
  }

  int64_t features_, rows_;
  Scratch<T> memory_;
};

}  // namespace linnet::cpu::LINNET_ISA
