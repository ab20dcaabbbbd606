#pragma once

#include <linnet/ops/cpu/device/philox_blocks.h>
#include <linnet/ops/cpu/fastmax/tokens.h>

/// The packed features of Fastmax: with x̃ = [1; x], the products x̃_a·x̃_b for a ≤ b, row by row of that triangle.
/// Row 0, [1; x], is all that order 1 has. Since (x·y)² = Σ_ab x_a x_b y_a y_b,
///   f(x·y) = a0 + a1·x·y + a2·(x·y)² = Σ_{a≤b} w_ab (x̃_a x̃_b)(ỹ_a ỹ_b)     [FAST eq.8], factorised as in eqs. 24–25
/// with weights w_00 = a0, w_0b = a1, w_aa = a2, and w_ab = 2·a2 for a < b, which stands for (a, b) and (b, a).

namespace linnet::cpu::LINNET_ISA {

/// Rows `begin` … `end` − 1 of the triangle, which are features `first` … `first + count` − 1.
struct FeatureRange {
  int64_t begin, end, first, count;
};

class Features {
 public:
  /// `columns`: the largest number of columns of the matrices that features are multiplied with.
  Features(int64_t width, bool second_order, int64_t columns)
      : width_(width),
        rows_(second_order ? width + 1 : 1),
        capacity_(std::max(kBlasSmall / (kTile * columns), width + 1)) {}

  int64_t width() const { return width_; }
  /// M: (D + 1)(D + 2)/2, or D + 1 for order 1.
  int64_t count() const { return before(rows_); }
  /// The most features in a range.
  int64_t capacity() const { return std::min(capacity_, count()); }

  /// The weights w, feature by feature.
  template <class T>
  void weigh(const FastmaxParams& f, T* w) const {
    for (int64_t a = 0; a < rows_; ++a) {
      for (int64_t b = a; b <= width_; ++b) {
        *w++ = static_cast<T>(a > 0 ? (a == b ? f.a2 : 2 * f.a2) : b > 0 ? f.a1 : f.a0);
      }
    }
  }

  /// Calls `f(range)` for ranges of whole rows that cover all features in order.
  template <class F>
  void for_each_range(F f) const {
    for (int64_t begin = 0, end = 0; begin < rows_; begin = end) {
      while (end < rows_ && before(end + 1) - before(begin) <= capacity_) ++end;
      f(FeatureRange{begin, end, before(begin), before(end) - before(begin)});
    }
  }

  /// Calls `f(a, b, i)` for the features x̃_a·x̃_b of a range; i counts within the range.
  template <class F>
  void for_each(const FeatureRange& range, F f) const {
    int64_t i = 0;
    for (int64_t a = range.begin; a < range.end; ++a) {
      for (int64_t b = a; b <= width_; ++b) f(a, b, i++);
    }
  }

 private:
  /// With AVX-512, OpenBLAS multiplies matrices in place, without packing them first, up to 10^6 multiplications:
  /// 238 against 180 GFLOP/s for 32 columns. Ranges of features stay that small where rows of the triangle allow it.
  static constexpr int64_t kBlasSmall = 1'000'000;

  /// Features in the rows before row `a`.
  int64_t before(int64_t a) const { return a * (width_ + 1) - a * (a - 1) / 2; }

  int64_t width_, rows_, capacity_;
};

/// The dropout factors of the features of a tile of tokens: 0 or 256/keep_of_256 each, decided by one random byte.
template <class T>
class FeatureMask {
 public:
  FeatureMask(const FastmaxParams& params, RandomKey key, const Features& features, int64_t head, int64_t tiles)
      : kind_(params.dropout),
        key_(key),
        rows_(kind_ == FastmaxDropout::token ? 1 : features.count()),
        first_row_(head * tiles * rows_),
        last_kept_(params.keep_of_256 - 1),
        factor_(static_cast<T>(256.0 / params.keep_of_256)),
        random_(drops() ? kTile / 4 * (kind_ == FastmaxDropout::token ? 1 : features.capacity()) : 0) {
    std::fill_n(ones_, kTile, T{1});
  }

  bool drops() const { return last_kept_ < 255; }

  /// Draws the bytes for a range of features and the tokens from tile·kTile on.
  void draw(int64_t tile, const FeatureRange& range) {
    if (!drops()) return;
    const bool token = kind_ == FastmaxDropout::token;
    const int64_t row = first_row_ + tile * rows_ + (token ? 0 : range.first);
    draw_rows(row, token ? 1 : range.count);
  }

  /// The factors of feature x̃_a·x̃_b, the i-th of the range, for each token of the tile.
  const T* factors(int64_t a, int64_t b, int64_t i) {
    const bool first_order = a == 0;
    if (kind_ == FastmaxDropout::quadratic ? first_order : kind_ == FastmaxDropout::token && b == 0) return ones_;
    const uint8_t* bytes =
        reinterpret_cast<const uint8_t*>(random_.data()) + (kind_ == FastmaxDropout::token ? 0 : i * kTile);
    const int32_t last = last_kept_;  // a local: a member might alias the stores, which prevents vectorisation
    const T factor = factor_;
#pragma omp simd
    for (int64_t n = 0; n < kTile; ++n) factors_[n] = bytes[n] <= last ? factor : T{0};
    return factors_;
  }

 private:
  void draw_rows(int64_t first, int64_t count) {
    constexpr int64_t kBlocks = kTile / 16;
    philox_blocks(key_, static_cast<uint64_t>(first * kBlocks), count * kBlocks, random_.data());
  }

  FastmaxDropout kind_;
  RandomKey key_;
  int64_t rows_, first_row_;
  int32_t last_kept_;
  T factor_;
  Scratch<uint32_t> random_;  // one byte for each feature and token
  T factors_[kTile], ones_[kTile];
};

}  // namespace linnet::cpu::LINNET_ISA
