#pragma once

#include <linnet/ops/cpu/device/philox_blocks.h>
#include <linnet/ops/cpu/fastmax/tokens.h>

/// The packed symmetric features of Fastmax: with x̃ = [1; x], the products x̃_a·x̃_b for a ≤ b, row by row of that
/// triangle. Row 0 alone, [1; x], is order 1. Because t^l = (x·y)^l is a sum over products of entries,
///   f(x·y) = a0 + a1·x·y + a2·(x·y)² = Σ_{a≤b} w_ab (x̃_a x̃_b)(ỹ_a ỹ_b),
/// with weights w_00 = a0, w_0b = a1, w_aa = a2 and, for the two terms that fall together, w_ab = 2·a2.

namespace linnet::cpu::LINNET_ISA {

/// Rows `begin` … `end` − 1 of the triangle: features `first` … `first + count` − 1.
struct FeatureBlock {
  int64_t begin, end, first, count;
};

class Features {
 public:
  /// `columns`: what features are multiplied with, up to this many numbers for each or for each token.
  Features(int64_t width, bool second_order, int64_t columns)
      : width_(width),
        rows_(second_order ? width + 1 : 1),
        capacity_(std::max(kBlasSmall / (kTile * columns), width + 1)) {}

  int64_t width() const { return width_; }
  /// M: (D + 1)(D + 2)/2, or D + 1 for order 1.
  int64_t count() const { return before(rows_); }
  /// The most features in a block.
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

  /// Calls `f(block)` for blocks that cover all features in order.
  template <class F>
  void for_each_block(F f) const {
    for (int64_t begin = 0, end = 0; begin < rows_; begin = end) {
      while (end < rows_ && before(end + 1) - before(begin) <= capacity_) ++end;
      f(FeatureBlock{begin, end, before(begin), before(end) - before(begin)});
    }
  }

  /// Calls `f(a, b, i)` for the features x̃_a·x̃_b of a block; i counts within the block.
  template <class F>
  void for_each(const FeatureBlock& block, F f) const {
    int64_t i = 0;
    for (int64_t a = block.begin; a < block.end; ++a) {
      for (int64_t b = a; b <= width_; ++b) f(a, b, i++);
    }
  }

 private:
  /// With AVX-512, OpenBLAS multiplies matrices in place, without packing them first, when there are up to 10^6
  /// products: 238 against 180 GFLOP/s for 32 columns. Blocks of features are that small where rows of the triangle
  /// allow it.
  static constexpr int64_t kBlasSmall = 1'000'000;

  /// Features in the rows before row `a`.
  int64_t before(int64_t a) const { return a * (width_ + 1) - a * (a - 1) / 2; }

  int64_t width_, rows_, capacity_;
};

/// What dropout multiplies the features of a tile with: 0 or 256/keep_of_256 each, drawn byte by byte.
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

  /// Draws for the features of a block and tokens tile·kTile, ….
  void draw(int64_t tile, const FeatureBlock& block) {
    if (!drops()) return;
    const bool token = kind_ == FastmaxDropout::token;
    const int64_t row = first_row_ + tile * rows_ + (token ? 0 : block.first);
    draw_rows(row, token ? 1 : block.count);
  }

  /// The factors of feature x̃_a·x̃_b, the i-th of the block, for each token of the tile.
  const T* factors(int64_t a, int64_t b, int64_t i) {
    const bool first_order = a == 0;
    if (kind_ == FastmaxDropout::quadratic ? first_order : kind_ == FastmaxDropout::token && b == 0) return ones_;
    const uint8_t* bytes =
        reinterpret_cast<const uint8_t*>(random_.data()) + (kind_ == FastmaxDropout::token ? 0 : i * kTile);
    const int32_t last = last_kept_;  // Members might change with each store: nothing would be vectorised.
    const T factor = factor_;
#pragma omp simd
    for (int64_t n = 0; n < kTile; ++n) made_[n] = bytes[n] <= last ? factor : T{0};
    return made_;
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
  Scratch<uint32_t> random_;  // a byte for each feature and token
  T made_[kTile], ones_[kTile];
};

}  // namespace linnet::cpu::LINNET_ISA
