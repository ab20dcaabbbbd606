#pragma once

#include <linnet/ops/cpu/fastmax/features.h>

namespace linnet::cpu::LINNET_ISA {

/// φ for one range of features and one tile of tokens, [features, kTile], and the loops over features.
/// The denominators use the features before dropout, unless `shared_denominator` is set.
template <class T>
class FeatureTile {
 public:
  FeatureTile(const FastmaxParams& params, RandomKey key, const Features& features, int64_t head, int64_t tiles)
      : features_(features),
        mask_(params, key, features, head, tiles),
        clean_(!params.shared_denominator),
        phi_(features.capacity() * kTile) {}

  /// Chooses the features `range` and the tokens from `at` on of x, which are tile `number` of the sequence.
  void set(const AugmentedTokens<T>& x, int64_t at, int64_t number, const FeatureRange& range) {
    x_ = &x;
    at_ = at;
    range_ = &range;
    mask_.draw(number, range);
  }

  const T* data() const { return phi_.data(); }

  /// Makes φ, times `weights` if not null.
  void make(const T* weights = nullptr) {
    for_each([&]<bool kDrops>(int64_t i, const T* a, const T* b, const T* factors) {
      const T weight = weights != nullptr ? weights[i] : T{1};
      T* out = phi_.data() + i * kTile;
#pragma omp simd
      for (int64_t n = 0; n < kTile; ++n) out[n] = weight * a[n] * b[n] * (kDrops ? factors[n] : T{1});
    });
  }

  /// Makes φ, and adds Σ_n φ_n t_n to z.                                                 [FAST eq.29]
  void make_and_sum(const T* t, T* z) {
    for_each([&]<bool kDrops>(int64_t i, const T* a, const T* b, const T* factors) {
      T* out = phi_.data() + i * kTile;
      T total = 0, kept_total = 0;
#pragma omp simd reduction(+ : total, kept_total)
      for (int64_t n = 0; n < kTile; ++n) {
        const T product = a[n] * b[n];
        const T kept = kDrops ? product * factors[n] : product;
        out[n] = kept;
        total += product * t[n];
        if (kDrops) kept_total += kept * t[n];
      }
      z[i] += kDrops && !clean_ ? kept_total : total;
    });
  }

  /// Makes φ, and adds Σ_features z φ_n to g_n.                             [FAST eq.27] [FAST eq.33]
  void make_and_weigh(const T* z, T* g) {
    for_each([&]<bool kDrops>(int64_t i, const T* a, const T* b, const T* factors) {
      T* out = phi_.data() + i * kTile;
      const T clean = clean_ ? z[i] : T{0}, shared = z[i] - clean;
#pragma omp simd
      for (int64_t n = 0; n < kTile; ++n) {
        const T product = a[n] * b[n];
        const T kept = kDrops ? product * factors[n] : product;
        out[n] = kept;
        g[n] += kDrops ? clean * product + shared * kept : z[i] * product;
      }
    });
  }

  /// Adds the gradients through φ to dx, laid out like x̃. The cotangent of φ is dphi + z·t. The cotangent c of a
  /// feature x̃_a·x̃_b adds c·x̃_b to ∂x̃_a and c·x̃_a to ∂x̃_b, or 2c·x̃_a for a square.
  void add_gradients(const T* dphi, const T* z, const T* t, T* dx) {
    for_each([&]<bool kDrops>(int64_t i, const T* a, const T* b, const T* factors) {
      const T* w = dphi + i * kTile;
      T* da = dx + (a - x_->row(0));
      T* db = dx + (b - x_->row(0));
      const T clean = clean_ ? z[i] : T{0}, shared = z[i] - clean;
      const auto cotangent = [&](int64_t n) {
        return kDrops ? (w[n] + shared * t[n]) * factors[n] + clean * t[n] : w[n] + z[i] * t[n];
      };
      if (a == b) {
#pragma omp simd
        for (int64_t n = 0; n < kTile; ++n) da[n] += 2 * cotangent(n) * a[n];
      } else {
#pragma omp simd
        for (int64_t n = 0; n < kTile; ++n) {
          const T c = cotangent(n);
          da[n] += c * b[n];
          db[n] += c * a[n];
        }
      }
    });
  }

 private:
  /// Calls `f(i, x̃_a, x̃_b, factors)` for each feature i of the range, x̃_a·x̃_b; the arrays hold kTile tokens.
  template <class F>
  void for_each(F f) {
    if (mask_.drops()) {
      features_.for_each(*range_, [&](int64_t a, int64_t b, int64_t i) {
        f.template operator()<true>(i, x_->row(a) + at_, x_->row(b) + at_, mask_.factors(a, b, i));
      });
    } else {
      features_.for_each(*range_, [&](int64_t a, int64_t b, int64_t i) {
        f.template operator()<false>(i, x_->row(a) + at_, x_->row(b) + at_, nullptr);
      });
    }
  }

  const Features& features_;
  FeatureMask<T> mask_;
  bool clean_;
  Scratch<T> phi_;
  const AugmentedTokens<T>* x_ = nullptr;
  const FeatureRange* range_ = nullptr;
  int64_t at_ = 0;
};

}  // namespace linnet::cpu::LINNET_ISA
