#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include <linnet/ops/cpu/device/head_rows.h>
#include <linnet/ops/cpu/device/kernel.h>

/// Matrix products of tiles that stay in the nearest caches: nothing is packed or copied, which is what a call to
/// BLAS spends a good part of its time on when one dimension of a product is no more than the width of a head.
///
/// A tile of the result, some rows by some vectors, stays in registers while the sum runs. Each of its turns loads a
/// vector a column and one element a row: with 8 rows and 2 columns, 10 loads for 16 multiplications of vectors, so
/// that the multiplier is the bound. It has as many sums as registers allow, since each waits for itself: with AVX2,
/// 6 rows are up to a seventh faster than 4, whose 8 sums are no more than the multiplier has under way.

namespace linnet::cpu::LINNET_ISA {

/// A matrix however it lies: element (r, c) is data[r · row + c · column].
template <class T>
struct Matrix {
  const T* data;
  int64_t row, column;

  Matrix from(int64_t r, int64_t c) const { return {data + r * row + c * column, row, column}; }
};

namespace product {

/// A tile's rows in packed products, of three vectors each; and its vectors here, kVectors to a row.
#if defined(__AVX512F__)
constexpr int64_t kVectorBytes = 64;
constexpr int kRows = 8, kSums = 16;
#elif defined(__AVX__)
constexpr int64_t kVectorBytes = 32;
constexpr int kRows = 4, kSums = 12;
#else
constexpr int64_t kVectorBytes = 16;
constexpr int kRows = 4, kSums = 8;
#endif
constexpr int kVectors = 2;
template <class T>
constexpr int kLanes = static_cast<int>(kVectorBytes / sizeof(T));

/// `kCount` numbers, wherever they lie.
template <class T, int kCount>
struct Vector {
  using Type [[gnu::vector_size(kCount * sizeof(T)), gnu::aligned(alignof(T)), gnu::may_alias]] = T;
};
template <class T, int kCount>
using VectorOf = typename Vector<T, kCount>::Type;

/// What c[r] from column `column` on is added to, of a base that may be none: then its data is null.
template <class T>
Rows<const T> base_at(Rows<const T> base, int64_t r, int64_t column) {
  return {base.data == nullptr ? nullptr : base[r] + column, base.stride};
}

/// Of c = a·b + base, or without a base where its data is null. They go from function to function by reference: on
/// the stack, they would be read back in larger pieces than they were written in, which waits for both.
template <class T>
struct Operands {
  Matrix<T> a;
  Rows<const T> b, base;
  Rows<T> c;

  /// For c from row `r` and column `column` on.
  Operands from(int64_t r, int64_t column) const {
    return {a.from(r, 0), {b.data + column, b.stride}, base_at(base, r, column), {c[r] + column, c.stride}};
  }
};

/// [0, rows) in bands of at most `most`, about as high as each other: few rows alone would wait for their own sums.
struct Bands {
  int64_t count, low, higher;  // the first ones have a row more

  Bands(int64_t rows, int64_t most)
      : count(ceil_div(rows, most)), low(rows / std::max(count, int64_t{1})), higher(rows - count * low) {}

  int64_t begin(int64_t band) const { return band * low + std::min(band, higher); }
  int64_t height(int64_t band) const { return low + (band < higher ? 1 : 0); }
};

/// What a tile fetches into a nearer cache while its sum runs: nothing.
struct NoPrefetch {
  static constexpr int64_t kTurns = std::numeric_limits<int64_t>::max();
  void fetch() {}
};

/// The sums of a tile, kR rows by kC vectors. `row` is from row to row of a.
template <int kR, int kC, class V, class T, class Row, class Ahead>
[[gnu::always_inline]] inline void add_products(int64_t depth, const Operands<T>& x, Row row, Ahead ahead,
                                                V (&sum)[kR][kC]) {
  constexpr int64_t kCount = sizeof(V) / sizeof(T);
  for (int64_t k = 0; k < depth;) {
    ahead.fetch();
    for (const int64_t end = depth - k > Ahead::kTurns ? k + Ahead::kTurns : depth; k < end; ++k) {
      V right[kC];
#pragma GCC unroll 3
      for (int l = 0; l < kC; ++l) right[l] = *reinterpret_cast<const V*>(x.b[k] + l * kCount);
#pragma GCC unroll 16
      for (int r = 0; r < kR; ++r) {
        const T left = x.a.data[r * row + k * x.a.column];
#pragma GCC unroll 3
        for (int l = 0; l < kC; ++l) sum[r][l] += left * right[l];
      }
    }
  }
}

/// kR rows by kC vectors of c. The base is added once, at the end, so that a long sum in tiles is one of blocks.
template <int kR, int kC, class V, class T, class Ahead>
[[gnu::always_inline]] inline void multiply(int64_t depth, const Operands<T>& x, Ahead ahead) {
  constexpr int64_t kCount = sizeof(V) / sizeof(T);
  V sum[kR][kC] = {};
  // Rows side by side are at constant distances, which take no registers: 16 rows have more than there are.
  if (x.a.row == 1) {
    add_products<kR, kC, V>(depth, x, std::integral_constant<int64_t, 1>{}, ahead, sum);
  } else {
    add_products<kR, kC, V>(depth, x, x.a.row, ahead, sum);
  }
#pragma GCC unroll 16
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 3
    for (int l = 0; l < kC; ++l) {
      if (x.base.data != nullptr) sum[r][l] += *reinterpret_cast<const V*>(x.base[r] + l * kCount);
      *reinterpret_cast<V*>(x.c[r] + l * kCount) = sum[r][l];
    }
  }
}

/// `rows` ≤ kR rows.
template <int kR, int kC, class V, class T, class Ahead = NoPrefetch>
[[gnu::always_inline]] inline void multiply_rows(int64_t rows, int64_t depth, const Operands<T>& x,
                                                 Ahead ahead = {}) {
  if (rows == kR) {
    multiply<kR, kC, V>(depth, x, ahead);
  } else if constexpr (kR > 1) {
    multiply_rows<kR - 1, kC, V>(rows, depth, x, ahead);
  }
}

/// All rows of some columns, kC vectors.
template <int kC, class V, class T>
void multiply_columns(int64_t rows, int64_t depth, const Operands<T>& x) {
  constexpr int kTogether = kSums / kC;
  const Bands bands(rows, kTogether);
  for (int64_t i = 0; i < bands.count; ++i) {
    multiply_rows<kTogether, kC, V>(bands.height(i), depth, x.from(bands.begin(i), 0));
  }
}

/// All columns: in pairs of vectors, then one by one, then in ever smaller vectors.
template <int kC, int kCount, class T>
void multiply_all(int64_t rows, int64_t width, int64_t depth, Operands<T> x) {
  for (; width >= kC * kCount; width -= kC * kCount, x = x.from(0, kC * kCount)) {
    multiply_columns<kC, VectorOf<T, kCount>>(rows, depth, x);
  }
  if (width == 0) return;
  if constexpr (kC > 1) {
    multiply_all<1, kCount>(rows, width, depth, x);
  } else if constexpr (kCount > 1) {
    multiply_all<1, kCount / 2>(rows, width, depth, x);
  }
}

}  // namespace product

/// c = a·b + base for `rows` rows of a and c, `depth` rows of b, and `width` columns. Without a base where its data
/// is null; the base may be c.
template <class T>
void tile_product(int64_t rows, int64_t width, int64_t depth, Matrix<T> a, Rows<const T> b, Rows<const T> base,
                  Rows<T> c) {
  product::multiply_all<product::kVectors, product::kLanes<T>, T>(rows, width, depth, {a, b, base, c});
}

/// c = a·b, or c += a·b.
template <class T>
void tile_product(int64_t rows, int64_t width, int64_t depth, Matrix<T> a, Rows<const T> b, Rows<T> c, bool add) {
  tile_product<T>(rows, width, depth, a, b, add ? Rows<const T>(c) : Rows<const T>{nullptr, 0}, c);
}

}  // namespace linnet::cpu::LINNET_ISA
