#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/device/transpose.h>

/// Matrix products of float32 on AMX, a processor's unit for tiles of bfloat16, without losing float32's precision.
///
/// A float of 24 bits is the exact sum of three bfloat16 of 8 bits each, x = x0 + x1 + x2, each the rounded rest of
/// those before it. Of the nine products in x·y the six of i + j ≤ 2 are summed, in float32, each exact; the other
/// three are below half a unit in the last place of x·y together (Henry, Tang & Heinecke 2019, "Leveraging the
/// bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations"). The unit adds up 32 products before
/// it rounds them into the result, so that errors are half of those of AVX-512's multiplications, one after another
/// (root mean square, sums of 47 to 512 products; against float64).
///
/// That is six times the work on a unit that is 16 times as fast as AVX-512's multipliers, and it is the bound where
/// both factors are split beforehand and read from a core's own caches: then tiles go at 1,200 GFLOP/s of float32 on
/// 2 cores of a Xeon of 2023 or later. Splitting a tile costs as much as two to four products of tiles, more where it
/// comes from memory: what is split should be used often.
///
/// Not as in float32: numbers and products below 2^-126 count as 0, and a sum that is not finite may be so for the
/// parts alone. Whoever calls this makes such a sum again in another way.

namespace linnet::cpu::LINNET_ISA {

/// Whether products of T are made so: of float32, in the kernels for AMX.
#if defined(__AMX_BF16__)
template <class T>
constexpr bool kSplits = std::is_same_v<T, float>;
#else
template <class T>
constexpr bool kSplits = false;
#endif

namespace split {

/// Rows or columns of a tile, what it holds of the sum, and the parts of a number.
constexpr int64_t kSide = 16, kDepth = 32;
constexpr int kParts = 3;
/// A tile has 16 rows of 16 pairs of bfloat16, and two tiles of each part, side by side, are a step of a stripe.
constexpr int64_t kTileWords = 256, kPartWords = 2 * kTileWords, kStepWords = kParts * kPartWords;
constexpr int64_t kStripe = 2 * kSide;

using Words = product::VectorOf<uint32_t, kSide>;
using Floats = product::VectorOf<float, kSide>;

/// The parts of x and y as pairs, x's in the lower halves; part i goes to to[i · kPartWords].
[[gnu::always_inline]] inline void split_pair(const Floats& x, const Floats& y, uint32_t* to) {
  constexpr uint32_t kHalfUnit = 0x8000, kUpper = 0xffff0000;
  Floats x_rest = x, y_rest = y;
#pragma GCC unroll 3
  for (int part = 0; part < kParts; ++part) {
    Words x_part = std::bit_cast<Words>(x_rest) + kHalfUnit, y_part = std::bit_cast<Words>(y_rest) + kHalfUnit;
    if (part == 0) {  // where the rest is all: NaNs are not rounded, for those of many ones would become numbers
      x_part = x == x ? x_part : std::bit_cast<Words>(x_rest);
      y_part = y == y ? y_part : std::bit_cast<Words>(y_rest);
    }
    x_part &= kUpper;
    y_part &= kUpper;
    *reinterpret_cast<Words*>(to + part * kPartWords) = (x_part >> 16) | y_part;
    x_rest -= std::bit_cast<Floats>(x_part);
    y_rest -= std::bit_cast<Floats>(y_part);
  }
}

/// 16 pairs of vectors: x + i · row and x + i · row + second.
inline void split_tile(const float* x, int64_t row, int64_t second, uint32_t* to) {
  for (int64_t i = 0; i < kSide; ++i) {
    const float* pair = x + i * row;
    split_pair(*reinterpret_cast<const Floats*>(pair), *reinterpret_cast<const Floats*>(pair + second),
               to + i * kSide);
  }
}

/// to[r · width + c] = x(r, c), and 0 beyond the rows and columns that x has.
inline void gather(Matrix<float> x, int64_t rows, int64_t columns, int64_t width, float* to) {
  if (x.row == 1) {
    transpose<float>(columns, rows, {x.data, x.column}, {to, width});
  } else {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) to[r * width + c] = x.data[r * x.row + c * x.column];
    }
  }
}

/// Splits a tile of the left factor, [rows, depth] of at most [16, 32]. A row holds 16 pairs of what is 16 apart in
/// the sum: any order will do that both factors have.
inline void split_left(Matrix<float> a, int64_t rows, int64_t depth, uint32_t* to) {
  if (a.column == 1 && rows == kSide && depth == kDepth) return split_tile(a.data, a.row, kSide, to);
  alignas(64) float whole[kSide * kDepth];
  if (rows < kSide || depth < kDepth) std::fill_n(whole, kSide * kDepth, 0.0f);
  gather(a, rows, depth, kDepth, whole);
  split_tile(whole, kDepth, kSide, to);
}

/// The same of the right factor, [depth, columns] of at most [32, 16]: a row holds the pairs of 16 columns.
inline void split_right(Matrix<float> b, int64_t depth, int64_t columns, uint32_t* to) {
  if (b.column == 1 && columns == kSide && depth == kDepth) {
    return split_tile(b.data, b.row, kSide * b.row, to);
  }
  alignas(64) float whole[kDepth * kSide];
  if (columns < kSide || depth < kDepth) std::fill_n(whole, kDepth * kSide, 0.0f);
  gather(b, depth, columns, kSide, whole);
  split_tile(whole, kSide, kSide * kSide, to);
}

inline int64_t steps(int64_t depth) { return ceil_div(depth, kDepth); }
/// Of `count` rows or columns, in stripes.
inline int64_t words(int64_t count, int64_t depth) { return ceil_div(count, kStripe) * steps(depth) * kStepWords; }

/// A stripe of the left factor, 32 rows or what there are of them, all of the sum.
inline void split_rows(Matrix<float> a, int64_t rows, int64_t depth, uint32_t* to) {
  for (int64_t k = 0; k < depth; k += kDepth, to += kStepWords) {
    for (int64_t r = 0; r < rows; r += kSide) {
      split_left(a.from(r, k), std::min(kSide, rows - r), std::min(kDepth, depth - k), to + r * kSide);
    }
  }
}

/// A stripe of the right factor, 32 columns.
inline void split_columns(Matrix<float> b, int64_t depth, int64_t columns, uint32_t* to) {
  for (int64_t k = 0; k < depth; k += kDepth, to += kStepWords) {
    for (int64_t c = 0; c < columns; c += kSide) {
      split_right(b.from(k, c), std::min(kDepth, depth - k), std::min(kSide, columns - c), to + c * kSide);
    }
  }
}

/// The calling thread's tile registers, while this lives: 0 to 3 for sums, 4 and 5 for the left factor, 6 and 7 for
/// the right one. The compiler's own functions for them do not say that they read memory.
class Tiles {
 public:
  Tiles() {
    struct alignas(64) Configuration {
      uint8_t palette = 1, reserved[15] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static constexpr Configuration kConfiguration;
    asm volatile("ldtilecfg %0" ::"m"(kConfiguration));
  }
  ~Tiles() { asm volatile("tilerelease"); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  template <int kTile>
  [[gnu::always_inline]] static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  template <int kTile>
  [[gnu::always_inline]] static void load(const uint32_t* from) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(kSide * sizeof(uint32_t)), "i"(kTile) : "memory");
  }
  template <int kTile>
  [[gnu::always_inline]] static void store(float* to, int64_t row) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(row * sizeof(float)), "i"(kTile) : "memory");
  }
  /// sum += left · right
  template <int kSum, int kLeft, int kRight>
  [[gnu::always_inline]] static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kLeft), "i"(kRight));
  }
};

/// out [kR · 16, kC · 16], rows 32 apart, = the product of two stripes.
template <int kR, int kC>
void multiply_stripes(const uint32_t* a, const uint32_t* b, int64_t count, float* out) {
  const auto left = [&](int part) {
    Tiles::load<4>(a + part * kPartWords);
    if constexpr (kR > 1) Tiles::load<5>(a + part * kPartWords + kTileWords);
  };
  const auto right = [&](int part) {
    Tiles::load<6>(b + part * kPartWords);
    if constexpr (kC > 1) Tiles::load<7>(b + part * kPartWords + kTileWords);
  };
  const auto multiply = [&] {
    Tiles::multiply<0, 4, 6>();
    if constexpr (kC > 1) Tiles::multiply<1, 4, 7>();
    if constexpr (kR > 1) Tiles::multiply<2, 5, 6>();
    if constexpr (kR > 1 && kC > 1) Tiles::multiply<3, 5, 7>();
  };
  Tiles::zero<0>();
  Tiles::zero<1>();
  Tiles::zero<2>();
  Tiles::zero<3>();
  for (; count > 0; --count, a += kStepWords, b += kStepWords) {
    left(0);  // in an order that loads little twice
    right(2);
    multiply();
    right(1);
    multiply();
    right(0);
    multiply();
    left(2);
    multiply();
    left(1);
    multiply();
    right(1);
    multiply();
  }
  Tiles::store<0>(out, kStripe);
  if constexpr (kC > 1) Tiles::store<1>(out + kSide, kStripe);
  if constexpr (kR > 1) Tiles::store<2>(out + kSide * kStripe, kStripe);
  if constexpr (kR > 1 && kC > 1) Tiles::store<3>(out + kSide * kStripe + kSide, kStripe);
}

/// c = sums + base; false if a sum is not finite.
inline bool write(int64_t rows, int64_t columns, const float* sums, Rows<const float> base, Rows<float> c) {
  const int64_t whole = columns / kSide * kSide;
  Floats beyond = {};  // x − x is 0, or NaN where x is not finite
  bool finite = true;
  for (int64_t r = 0; r < rows; ++r) {
    const float *from = sums + r * kStripe, *more = base.data != nullptr ? base[r] : nullptr;
    for (int64_t l = 0; l < whole; l += kSide) {
      Floats x = *reinterpret_cast<const Floats*>(from + l);
      beyond += x - x;
      if (more != nullptr) x += *reinterpret_cast<const Floats*>(more + l);
      *reinterpret_cast<Floats*>(c[r] + l) = x;
    }
    for (int64_t l = whole; l < columns; ++l) {
      finite &= std::isfinite(from[l]);
      c[r][l] = from[l] + (more != nullptr ? more[l] : 0.0f);
    }
  }
  for (int64_t l = 0; l < kSide; ++l) finite &= beyond[l] == 0;
  return finite;
}

}  // namespace split

/// The right factor of a product, [depth, width], split for several tasks, by several threads.
class SplitPanels {
 public:
  SplitPanels(Matrix<float> b, int64_t depth, int64_t width) : depth_(depth), words_(split::words(width, depth)) {
    constexpr int64_t kStripe = split::kStripe;
    parallel_for(ceil_div(width, kStripe), std::max<int64_t>(1, kGrain / (8 * kStripe * depth)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t stripe = begin; stripe < end; ++stripe) {
                     const int64_t c = stripe * kStripe;
                     split::split_columns(b.from(0, c), depth, std::min(kStripe, width - c),
                                          words_.data() + at(stripe));
                   }
                 });
  }

  /// The stripe of columns from c on, from row k on; c and k are multiples of 32.
  const uint32_t* at(int64_t k, int64_t c) const {
    return words_.data() + at(c / split::kStripe) + k / split::kDepth * split::kStepWords;
  }

 private:
  int64_t at(int64_t stripe) const { return stripe * split::steps(depth_) * split::kStepWords; }

  int64_t depth_;
  Scratch<uint32_t> words_;
};

/// c = a·b + base on the calling thread, as packed_product; false, with c of no use, if a sum is not finite.
template <class StripeAt>
bool split_product(int64_t rows, int64_t width, int64_t depth, Matrix<float> a, Matrix<float> b, StripeAt&& stripe_at,
                   Rows<const float> base, Rows<float> c) {
  using namespace split;
  constexpr int64_t kPartDepth = 512;  // a part's result is rounded into c
  const int64_t part = round_up(ceil_div(depth, ceil_div(depth, kPartDepth)), split::kDepth);
  const Scratch<uint32_t> left(words(rows, part));
  const bool own = stripe_at(0, 0) == nullptr;
  const Scratch<uint32_t> right(own ? words(kStripe, part) : 0);
  const Tiles tiles;
  alignas(64) float sums[kStripe * kStripe];
  bool finite = true;
  for (int64_t k = 0; k < depth; k += part) {
    const int64_t length = std::min(part, depth - k), count = steps(length);
    for (int64_t r = 0; r < rows; r += kStripe) {
      split_rows(a.from(r, k), std::min(kStripe, rows - r), length, left.data() + r / kStripe * count * kStepWords);
    }
    const Rows<const float> from = k > 0 ? Rows<const float>(c) : base;
    for (int64_t column = 0; column < width; column += kStripe) {
      const int64_t columns = std::min(kStripe, width - column);
      const uint32_t* stripe = own ? right.data() : stripe_at(k, column);
      if (own) split_columns(b.from(k, column), length, columns, right.data());
      for (int64_t r = 0; r < rows; r += kStripe) {
        const int64_t height = std::min(kStripe, rows - r);
        const uint32_t* band = left.data() + r / kStripe * count * kStepWords;
        const auto multiply = height > kSide ? (columns > kSide ? multiply_stripes<2, 2> : multiply_stripes<2, 1>)
                                             : (columns > kSide ? multiply_stripes<1, 2> : multiply_stripes<1, 1>);
        multiply(band, stripe, count, sums);
        finite &= write(height, columns, sums, product::base_at(from, r, column), {c[r] + column, c.stride});
      }
    }
  }
  return finite;
}

}  // namespace linnet::cpu::LINNET_ISA
