#pragma once

#include <algorithm>
#include <utility>

#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/fastmax/tokens.h>
#include <linnet/ops/cpu/performer/features.h>

/// Tokens of FAVOR+, and the runs into which causal ones are cut.
///
/// Causal: the sums of keys, S, grow token by token, and so do those of queries, R, from the last to the first. S is
/// relative to the largest exponents so far, but not for each token: a chunk is cut into runs of tokens, and a run
/// takes the exponents at its end. A run ends before an exponent would be kMostGrowth above the largest at its first
/// token. So a query's denominator is at least 2^−kMostGrowth, and the digits of a small exponent are never lost to
/// a much larger one of a later key. In the worst case a run is one token.

namespace linnet::cpu::LINNET_ISA {

/// Some tokens of one side: their exponents or features, and ỹ = [y; t]. Keys have y = v and t = 1, queries their
/// cotangents (see `Terms`).
template <class T>
struct PerformerTerms {
  Scratch<T> memory;
  Rows<T> phi;  // [size, features]: exponents, and then features
  Rows<T> y;    // [size, D + 1]
  T *t, *x_copy, *y_copy;
  Rows<const T> x{};  // [size, D], in place or in x_copy
  Sequence<T> from{};
  int64_t first = 0, size = 0;

  PerformerTerms(int64_t width, int64_t features, int64_t capacity)
      : memory(capacity * (features + y_stride(width) + 1 + 2 * width)),
        phi{memory.data(), features},
        y{phi[capacity], y_stride(width)},
        t(y[capacity]),
        x_copy(t + capacity),
        y_copy(x_copy + capacity * width) {}

  static int64_t y_stride(int64_t width) { return round_up(width + 1, product::kLanes<T>); }

  bool has(int64_t n) const { return from.has(first + n); }
};

/// The largest exponents of keys so far, and a search for runs.
template <class T>
class PerformerRuns {
 public:
  T *most, *factor;  ///< [features]: the largest exponents, and factors of sums up to now

  PerformerRuns(int64_t count, const T* before) : most(nullptr), factor(nullptr), count_(count), memory_(4 * count) {
    most = memory_.data();
    factor = most + count;
    first_ = factor + count;
    next_ = first_ + count;
    std::copy_n(before, count, most);
  }

  /// Calls `f(begin, end, rescaled)` for the runs of some keys, whose exponents are loaded. Before each call, `most`
  /// grows to the largest exponents of the run. If `rescaled`, the sums so far must be multiplied by `factor`.
  template <class F>
  void for_each(const PerformerTerms<T>& keys, F f) {
    for (int64_t begin = 0; begin < keys.size;) {
      std::copy_n(most, count_, first_);
      raise(count_, first_, keys.phi[begin]);
      std::copy_n(first_, count_, next_);
      int64_t end = begin + 1;
      for (; end < keys.size; ++end) raise(count_, next_, keys.phi[end]);
      if (growth(next_) > kMostGrowth) {
        std::copy_n(first_, count_, next_);
        for (end = begin + 1; growth(keys.phi[end]) <= kMostGrowth; ++end) raise(count_, next_, keys.phi[end]);
      }
      const bool rescaled = rescale_factors(count_, most, next_, factor);
      std::swap(most, next_);
      f(begin, end, rescaled);
      begin = end;
    }
  }

 private:
  /// How much an exponent to base 2 may grow within a run.
  static constexpr T kMostGrowth = 40;

  /// How much the largest exponents grow in the run with e: max_r(max(next_r, nearest(e_r)) − first_r).
  T growth(const T* e) const {
    T largest = 0;
#pragma omp simd reduction(max : largest)
    for (int64_t r = 0; r < count_; ++r) {
      const T larger = vec::nearest(e[r]) > next_[r] ? vec::nearest(e[r]) : next_[r];
      largest = larger - first_[r] > largest ? larger - first_[r] : largest;
    }
    return largest;
  }

  int64_t count_;
  Scratch<T> memory_;
  T *first_, *next_;
};

}  // namespace linnet::cpu::LINNET_ISA
