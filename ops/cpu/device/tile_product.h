#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include <linnet/ops/cpu/device/head_rows.h>
#include <linnet/ops/cpu/device/kernel.h>

/// Matrix products of operands that lie in the L1 or L2 cache. Nothing is packed or copied; a call to BLAS spends a
/// good part of its time on that when one dimension of a product is no larger than the width of a head.
///
/// A tile of the result, some rows by some vectors, stays in registers while the sum runs. Each iteration loads one
/// vector of b for each column and one element of a for each row: with 8 rows and 2 columns, 10 loads for 16 vector
/// multiplications, so that the multiplier is the bottleneck. A tile has as many sums as registers allow, because the
/// additions to one sum depend on each other: with AVX2, tiles of 6 rows are up to a seventh faster than tiles of 4,
/// whose 8 sums only just keep the multiplier busy.

namespace linnet::cpu::LINNET_ISA {

/// A matrix with any strides: element (r, c) is data[r · row + c · column].
template <class T>
struct Matrix {
  const T* data;
  int64_t row, column;

  Matrix from(int64_t r, int64_t c) const { return {data + r * row + c * column, row, column}; }
};

namespace product {

/// kRows: the rows of a tile of packed products, three vectors each. kSums: the vectors of a tile in this file,
/// kVectors in a row.
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

/// A vector of `kCount` numbers, with no alignment beyond that of T. It is a member because clang forgets the
/// alignment of an alias template. As an argument of a template it loses it too, so templates take kCount.
template <class T, int kCount>
struct Vector {
  using Type [[gnu::vector_size(kCount * sizeof(T)), gnu::aligned(alignof(T)), gnu::may_alias]] = T;
};
template <class T, int kCount>
using VectorOf = typename Vector<T, kCount>::Type;

/// `base` from row r and column `column` on; a null base stays null.
template <class T>
Rows<const T> base_at(Rows<const T> base, int64_t r, int64_t column) {
  return {base.data == nullptr ? nullptr : base[r] + column, base.stride};
}

/// The operands of c = a·b + base; no base where its data is null. Passed by reference: a copy on the stack would be
/// read back in wider loads than it was written with, which stalls store forwarding.
template <class T>
struct TileOperands {
  Matrix<T> a;
  Rows<const T> b, base;
  Rows<T> c;

  /// The operands for c from row `r` and column `column` on.
  TileOperands from(int64_t r, int64_t column) const {
    return {a.from(r, 0), {b.data + column, b.stride}, base_at(base, r, column), {c[r] + column, c.stride}};
  }
};

/// [0, total) split into ranges of at most `most`. Their sizes differ by at most one, because a tile of few rows
/// would have too few independent sums.
struct EvenSplit {
  int64_t count, least, longer;  // the first `longer` ranges have least + 1

  EvenSplit(int64_t total, int64_t most)
      : count(ceil_div(total, most)), least(total / std::max(count, int64_t{1})), longer(total - count * least) {}

  int64_t begin(int64_t i) const { return i * least + std::min(i, longer); }
  int64_t size(int64_t i) const { return least + (i < longer ? 1 : 0); }
};

/// A policy says what a tile prefetches every kInterval iterations of its sum. This one prefetches nothing.
struct NoPrefetch {
  static constexpr int64_t kInterval = std::numeric_limits<int64_t>::max();
  void fetch() {}
};

/// Adds a·b to the sums of a tile, kR rows by kC vectors. `row` is the stride between rows of a.
template <int kR, int kC, int kCount, class T, class Row, class Prefetch>
[[gnu::always_inline]] inline void add_products(int64_t depth, const TileOperands<T>& x, Row row, Prefetch prefetch,
                                                VectorOf<T, kCount> (&sum)[kR][kC]) {
  using V = VectorOf<T, kCount>;
  for (int64_t k = 0; k < depth;) {
    prefetch.fetch();
    for (const int64_t end = depth - k > Prefetch::kInterval ? k + Prefetch::kInterval : depth; k < end; ++k) {
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

/// A tile of c, kR rows by kC vectors. The base is added once, at the end: a long sum in several products then rounds
/// like a blocked sum.
template <int kR, int kC, int kCount, class T, class Prefetch>
[[gnu::always_inline]] inline void multiply(int64_t depth, const TileOperands<T>& x, Prefetch prefetch) {
  using V = VectorOf<T, kCount>;
  V sum[kR][kC] = {};
  // With a constant stride the rows' addresses take no registers; 16 rows would need more than there are.
  if (x.a.row == 1) {
    add_products<kR, kC, kCount>(depth, x, std::integral_constant<int64_t, 1>{}, prefetch, sum);
  } else {
    add_products<kR, kC, kCount>(depth, x, x.a.row, prefetch, sum);
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

/// A tile of `rows` ≤ kR rows by kC vectors.
template <int kR, int kC, int kCount, class T, class Prefetch = NoPrefetch>
[[gnu::always_inline]] inline void multiply_rows(int64_t rows, int64_t depth, const TileOperands<T>& x,
                                                 Prefetch prefetch = {}) {
  if (rows == kR) {
    multiply<kR, kC, kCount>(depth, x, prefetch);
  } else if constexpr (kR > 1) {
    multiply_rows<kR - 1, kC, kCount>(rows, depth, x, prefetch);
  }
}

/// All rows of kC vectors of columns.
template <int kC, int kCount, class T>
void multiply_columns(int64_t rows, int64_t depth, const TileOperands<T>& x) {
  constexpr int kTileRows = kSums / kC;
  const EvenSplit split(rows, kTileRows);
  for (int64_t i = 0; i < split.count; ++i) {
    multiply_rows<kTileRows, kC, kCount>(split.size(i), depth, x.from(split.begin(i), 0));
  }
}

/// All columns: in pairs of vectors, then one vector at a time, then in ever smaller vectors.
template <int kC, int kCount, class T>
void multiply_all(int64_t rows, int64_t width, int64_t depth, TileOperands<T> x) {
  for (; width >= kC * kCount; width -= kC * kCount, x = x.from(0, kC * kCount)) {
    multiply_columns<kC, kCount>(rows, depth, x);
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
