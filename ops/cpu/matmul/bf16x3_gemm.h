#pragma once

#include <algorithm>
#include <cmath>
#include <type_traits>

#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/tile_product.h>
#include <linnet/ops/cpu/device/transpose.h>

/// Matrix products of float32 on AMX, the processor's unit for products of bfloat16 tiles, at float32's precision.
///
/// A float of 24 bits is the exact sum of three bfloat16 of 8 bits each, x = x0 + x1 + x2, where each term is the
/// rounded rest after the terms before it. Of the nine products in x·y, the six with i + j ≤ 2 are exact and are
/// summed in float32; the other three together are below half a unit in the last place of x·y (Henry, Tang & Heinecke
/// 2019, "Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision Computations"). The unit adds
/// 32 products before it rounds them into the result, so that errors are half of those of AVX-512, which adds one
/// product after another (root mean square, sums of 47 to 512 products; against float64).
///
/// That is six times the work on a unit that is 16 times as fast as AVX-512's multipliers. The unit is the bottleneck
/// where both factors are packed beforehand and read from a core's own caches: 1,200 GFLOP/s of float32 on 2 cores of
/// a Xeon of 2023 or later. To pack a tile, with its numbers split into terms, costs as much as two to four products
/// of tiles, more where it comes from memory, so a packed tile should be used often.
///
/// Differences from float32: numbers and products below 2^-126 count as 0, and a sum may overflow in the terms
/// although the float32 sum is finite. `bf16x3_gemm` reports sums that are not finite, and the caller computes them
/// without AMX.

namespace linnet::cpu::LINNET_ISA {

/// Whether products of T are computed this way: for float32, in the kernels for AMX.
#if defined(__AMX_BF16__)
template <class T>
constexpr bool kUsesBf16x3 = std::is_same_v<T, float>;
#else
template <class T>
constexpr bool kUsesBf16x3 = false;
#endif

namespace bf16x3 {

/// Rows or columns of a tile, its length along the sum, and the terms of a number.
constexpr int64_t kSide = 16, kDepth = 32;
constexpr int kTerms = 3;
/// A tile has 16 rows of 16 pairs of bfloat16. One step of a panel along the sum is two tiles of each term, side by
/// side.
constexpr int64_t kTileWords = 256, kTermWords = 2 * kTileWords, kStepWords = kTerms * kTermWords;
constexpr int64_t kPanel = 2 * kSide;  // rows or columns of a panel

using Words = product::VectorOf<uint32_t, kSide>;
using Floats = product::VectorOf<float, kSide>;

/// Splits x and y into terms, as pairs with x in the lower halves; term i goes to to[i · kTermWords].
[[gnu::always_inline]] inline void split_pair(const Floats& x, const Floats& y, uint32_t* to) {
  constexpr uint32_t kHalfUnit = 0x8000, kUpper = 0xffff0000;
  // std::bit_cast would take the vectors by reference to a type with more alignment than they have.
  Floats x_rest = x, y_rest = y;
#pragma GCC unroll 3
  for (int term = 0; term < kTerms; ++term) {
    Words x_term = reinterpret_cast<Words>(x_rest) + kHalfUnit, y_term = reinterpret_cast<Words>(y_rest) + kHalfUnit;
    if (term == 0) {  // NaNs are not rounded: one whose bits are all ones would become a number
      x_term = x == x ? x_term : reinterpret_cast<Words>(x_rest);
      y_term = y == y ? y_term : reinterpret_cast<Words>(y_rest);
    }
    x_term &= kUpper;
    y_term &= kUpper;
    *reinterpret_cast<Words*>(to + term * kTermWords) = (x_term >> 16) | y_term;
    x_rest -= reinterpret_cast<Floats>(x_term);
    y_rest -= reinterpret_cast<Floats>(y_term);
  }
}

/// Splits the 16 pairs of vectors at x + i · row and x + i · row + second.
inline void split_tile(const float* x, int64_t row, int64_t second, uint32_t* to) {
  for (int64_t i = 0; i < kSide; ++i) {
    const float* pair = x + i * row;
    split_pair(*reinterpret_cast<const Floats*>(pair), *reinterpret_cast<const Floats*>(pair + second),
               to + i * kSide);
  }
}

/// to[r · width + c] = x(r, c) for the rows and columns that x has.
inline void gather(Matrix<float> x, int64_t rows, int64_t columns, int64_t width, float* to) {
  if (x.row == 1) {
    transpose<float>(columns, rows, {x.data, x.column}, {to, width});
  } else {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) to[r * width + c] = x.data[r * x.row + c * x.column];
    }
  }
}

/// Packs a tile of the left factor, [rows, depth] of at most [16, 32]. A row holds 16 pairs of elements that are 16
/// apart along the sum: any order is right as long as both factors have the same.
inline void split_left(Matrix<float> a, int64_t rows, int64_t depth, uint32_t* to) {
  if (a.column == 1 && rows == kSide && depth == kDepth) return split_tile(a.data, a.row, kSide, to);
  alignas(64) float whole[kSide * kDepth];
  if (rows < kSide || depth < kDepth) std::fill_n(whole, kSide * kDepth, 0.0f);
  gather(a, rows, depth, kDepth, whole);
  split_tile(whole, kDepth, kSide, to);
}

/// Packs a tile of the right factor, [depth, columns] of at most [32, 16]: a row holds one pair for each of 16
/// columns.
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
/// The words of `count` rows or columns in panels.
inline int64_t words(int64_t count, int64_t depth) { return ceil_div(count, kPanel) * steps(depth) * kStepWords; }

/// Packs a panel of the left factor: up to 32 rows, over the whole depth.
inline void pack_rows(Matrix<float> a, int64_t rows, int64_t depth, uint32_t* to) {
  for (int64_t k = 0; k < depth; k += kDepth, to += kStepWords) {
    for (int64_t r = 0; r < rows; r += kSide) {
      split_left(a.from(r, k), std::min(kSide, rows - r), std::min(kDepth, depth - k), to + r * kSide);
    }
  }
}

/// Packs a panel of the right factor: up to 32 columns, over the whole depth.
inline void pack_columns(Matrix<float> b, int64_t depth, int64_t columns, uint32_t* to) {
  for (int64_t k = 0; k < depth; k += kDepth, to += kStepWords) {
    for (int64_t c = 0; c < columns; c += kSide) {
      split_right(b.from(k, c), std::min(kDepth, depth - k), std::min(kSide, columns - c), to + c * kSide);
    }
  }
}

/// Configures the calling thread's tile registers while it exists: 0 to 3 hold sums, 4 and 5 the left factor, 6 and 7
/// the right one. Written in assembly, because the compiler's intrinsics do not declare that they read memory.
class AmxTiles {
 public:
  AmxTiles() {
    struct alignas(64) Configuration {
      uint8_t palette = 1, reserved[15] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static constexpr Configuration kConfiguration;
    asm volatile("ldtilecfg %0" ::"m"(kConfiguration));
  }
  ~AmxTiles() { asm volatile("tilerelease"); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

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

/// out [kR · 16, kC · 16], rows 32 apart, = the product of two panels over `count` steps.
template <int kR, int kC>
void multiply_panels(const uint32_t* a, const uint32_t* b, int64_t count, float* out) {
  const auto left = [&](int term) {
    AmxTiles::load<4>(a + term * kTermWords);
    if constexpr (kR > 1) AmxTiles::load<5>(a + term * kTermWords + kTileWords);
  };
  const auto right = [&](int term) {
    AmxTiles::load<6>(b + term * kTermWords);
    if constexpr (kC > 1) AmxTiles::load<7>(b + term * kTermWords + kTileWords);
  };
  const auto multiply = [&] {
    AmxTiles::multiply<0, 4, 6>();
    if constexpr (kC > 1) AmxTiles::multiply<1, 4, 7>();
    if constexpr (kR > 1) AmxTiles::multiply<2, 5, 6>();
    if constexpr (kR > 1 && kC > 1) AmxTiles::multiply<3, 5, 7>();
  };
  AmxTiles::zero<0>();
  AmxTiles::zero<1>();
  AmxTiles::zero<2>();
  AmxTiles::zero<3>();
  for (; count > 0; --count, a += kStepWords, b += kStepWords) {
    left(0);  // an order of the six products that loads few tiles twice
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
  AmxTiles::store<0>(out, kPanel);
  if constexpr (kC > 1) AmxTiles::store<1>(out + kSide, kPanel);
  if constexpr (kR > 1) AmxTiles::store<2>(out + kSide * kPanel, kPanel);
  if constexpr (kR > 1 && kC > 1) AmxTiles::store<3>(out + kSide * kPanel + kSide, kPanel);
}

/// c = sums + base; false if a sum is not finite.
inline bool write(int64_t rows, int64_t columns, const float* sums, Rows<const float> base, Rows<float> c) {
  const int64_t whole = columns / kSide * kSide;
  Floats beyond = {};  // x − x is 0, or NaN where x is not finite
  bool finite = true;
  for (int64_t r = 0; r < rows; ++r) {
    const float *from = sums + r * kPanel, *more = base.data != nullptr ? base[r] : nullptr;
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

}  // namespace bf16x3

/// The right factor of a product, [depth, width], packed in panels that several tasks read. Packed in parallel.
class Bf16x3Panels {
 public:
  Bf16x3Panels(Matrix<float> b, int64_t depth, int64_t width) : depth_(depth), words_(bf16x3::words(width, depth)) {
    constexpr int64_t kPanel = bf16x3::kPanel;
    parallel_for(ceil_div(width, kPanel), std::max<int64_t>(1, kGrain / (8 * kPanel * depth)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t panel = begin; panel < end; ++panel) {
                     const int64_t c = panel * kPanel;
                     bf16x3::pack_columns(b.from(0, c), depth, std::min(kPanel, width - c),
                                          words_.data() + at(panel));
                   }
                 });
  }

  /// The panel of columns from c on, from row k on; c and k are multiples of 32.
  const uint32_t* at(int64_t k, int64_t c) const {
    return words_.data() + at(c / bf16x3::kPanel) + k / bf16x3::kDepth * bf16x3::kStepWords;
  }

 private:
  int64_t at(int64_t panel) const { return panel * bf16x3::steps(depth_) * bf16x3::kStepWords; }

  int64_t depth_;
  Scratch<uint32_t> words_;
};

/// c = a·b + base on the calling thread, like `packed_gemm`. Returns false, and leaves c undefined, if a sum is not
/// finite.
template <class PanelAt>
bool bf16x3_gemm(int64_t rows, int64_t width, int64_t depth, Matrix<float> a, Matrix<float> b, PanelAt&& panel_at,
                 Rows<const float> base, Rows<float> c) {
  using namespace bf16x3;
  constexpr int64_t kMaxDepth = 512;  // products that are summed before they are rounded into c
  const int64_t panel_depth = round_up(ceil_div(depth, ceil_div(depth, kMaxDepth)), bf16x3::kDepth);
  const Scratch<uint32_t> left(words(rows, panel_depth));
  const bool own = panel_at(0, 0) == nullptr;
  const Scratch<uint32_t> right(own ? words(kPanel, panel_depth) : 0);
  const AmxTiles tiles;
  alignas(64) float sums[kPanel * kPanel];
  bool finite = true;
  for (int64_t k = 0; k < depth; k += panel_depth) {
    const int64_t length = std::min(panel_depth, depth - k), count = steps(length);
    for (int64_t r = 0; r < rows; r += kPanel) {
      pack_rows(a.from(r, k), std::min(kPanel, rows - r), length, left.data() + r / kPanel * count * kStepWords);
    }
    const Rows<const float> from = k > 0 ? Rows<const float>(c) : base;
    for (int64_t column = 0; column < width; column += kPanel) {
      const int64_t columns = std::min(kPanel, width - column);
      const uint32_t* panel = own ? right.data() : panel_at(k, column);
      if (own) pack_columns(b.from(k, column), length, columns, right.data());
      for (int64_t r = 0; r < rows; r += kPanel) {
        const int64_t height = std::min(kPanel, rows - r);
        const uint32_t* left_panel = left.data() + r / kPanel * count * kStepWords;
        const auto multiply = height > kSide ? (columns > kSide ? multiply_panels<2, 2> : multiply_panels<2, 1>)
                                             : (columns > kSide ? multiply_panels<1, 2> : multiply_panels<1, 1>);
        multiply(left_panel, panel, count, sums);
        finite &= write(height, columns, sums, product::base_at(from, r, column), {c[r] + column, c.stride});
      }
    }
  }
  return finite;
}

}  // namespace linnet::cpu::LINNET_ISA
