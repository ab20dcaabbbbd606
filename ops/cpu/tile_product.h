#pragma once

#include <linnet/ops/cpu/head_rows.h>
#include <linnet/ops/cpu/kernel.h>

/// Matrix products of tiles that stay in the nearest caches: nothing is packed or copied, which is what a call to
/// BLAS spends a good part of its time on when one dimension of a product is no more than the width of a head.
///
/// A tile of the result, some rows by some vectors, stays in registers while the sum runs. Each of its turns loads a
/// vector a column and one element a row: with 8 rows and 2 columns, 10 loads for 16 multiplications of vectors, so
/// that the multiplier is the bound.

namespace linnet::cpu::LINNET_ISA {

/// A matrix however it lies: element (r, c) is data[r · row + c · column].
template <class T>
struct Matrix {
  const T* data;
  int64_t row, column;

  Matrix from(int64_t r, int64_t c) const { return {data + r * row + c * column, row, column}; }
};

namespace product {

#if defined(__AVX512F__)
constexpr int64_t kVectorBytes = 64;
constexpr int kRows = 8;
#elif defined(__AVX__)
constexpr int64_t kVectorBytes = 32;
constexpr int kRows = 4;
#else
constexpr int64_t kVectorBytes = 16;
constexpr int kRows = 4;
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
  return base.data == nullptr ? base : Rows<const T>{base[r] + column, base.stride};
}

/// Calls `f(row, height)` for bands of [0, rows) of at most `most`, about as high as each other: few rows alone would
/// wait for their own sums.
template <class F>
void for_each_band(int64_t rows, int64_t most, F&& f) {
  const int64_t bands = ceil_div(rows, most);
  for (int64_t band = 0, row = 0, end = 0; band < bands; ++band, row = end) {
    end = rows * (band + 1) / bands;
    f(row, end - row);
  }
}

/// kR rows by kC vectors of c = a·b + base. The base is added once, at the end, so that a long sum in tiles is one of
/// blocks.
template <int kR, int kC, class V, class T>
void multiply(int64_t depth, Matrix<T> a, Rows<const T> b, Rows<const T> base, Rows<T> c) {
  constexpr int64_t kCount = sizeof(V) / sizeof(T);
  V sum[kR][kC] = {};
  for (int64_t k = 0; k < depth; ++k) {
    V right[kC];
#pragma GCC unroll 3
    for (int l = 0; l < kC; ++l) right[l] = *reinterpret_cast<const V*>(b[k] + l * kCount);
#pragma GCC unroll 16
    for (int r = 0; r < kR; ++r) {
      const T left = a.data[r * a.row + k * a.column];
#pragma GCC unroll 3
      for (int l = 0; l < kC; ++l) sum[r][l] += left * right[l];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kR; ++r) {
#pragma GCC unroll 3
    for (int l = 0; l < kC; ++l) {
      if (base.data != nullptr) sum[r][l] += *reinterpret_cast<const V*>(base[r] + l * kCount);
      *reinterpret_cast<V*>(c[r] + l * kCount) = sum[r][l];
    }
  }
}

/// `rows` ≤ kR rows.
template <int kR, int kC, class V, class T>
void multiply_rows(int64_t rows, int64_t depth, Matrix<T> a, Rows<const T> b, Rows<const T> base, Rows<T> c) {
  if (rows == kR) {
    multiply<kR, kC, V>(depth, a, b, base, c);
  } else if constexpr (kR > 1) {
    multiply_rows<kR - 1, kC, V>(rows, depth, a, b, base, c);
  }
}

/// All rows of some columns, kC vectors.
template <int kC, class V, class T>
void multiply_columns(int64_t rows, int64_t depth, Matrix<T> a, Rows<const T> b, Rows<const T> base, Rows<T> c) {
  constexpr int kTogether = kRows * kVectors / kC;
  for_each_band(rows, kTogether, [&](int64_t row, int64_t height) {
    multiply_rows<kTogether, kC, V>(height, depth, a.from(row, 0), b, base_at(base, row, 0), c.from(row));
  });
}

/// All columns: in pairs of vectors, then one by one, then in ever smaller vectors.
template <int kC, int kCount, class T>
void multiply_all(int64_t rows, int64_t width, int64_t depth, Matrix<T> a, Rows<const T> b, Rows<const T> base,
                  Rows<T> c) {
  for (; width >= kC * kCount; width -= kC * kCount) {
    multiply_columns<kC, VectorOf<T, kCount>>(rows, depth, a, b, base, c);
    b.data += kC * kCount;
    c.data += kC * kCount;
    base = base_at(base, 0, kC * kCount);
  }
  if (width == 0) return;
  if constexpr (kC > 1) {
    multiply_all<1, kCount>(rows, width, depth, a, b, base, c);
  } else if constexpr (kCount > 1) {
    multiply_all<1, kCount / 2>(rows, width, depth, a, b, base, c);
  }
}

}  // namespace product

/// c = a·b + base for `rows` rows of a and c, `depth` rows of b, and `width` columns. Without a base where its data
/// is null; the base may be c.
template <class T>
void tile_product(int64_t rows, int64_t width, int64_t depth, Matrix<T> a, Rows<const T> b, Rows<const T> base,
                  Rows<T> c) {
  product::multiply_all<product::kVectors, product::kLanes<T>>(rows, width, depth, a, b, base, c);
}

/// c = a·b, or c += a·b.
template <class T>
void tile_product(int64_t rows, int64_t width, int64_t depth, Matrix<T> a, Rows<const T> b, Rows<T> c, bool add) {
  tile_product<T>(rows, width, depth, a, b, add ? Rows<const T>(c) : Rows<const T>{nullptr, 0}, c);
}

}  // namespace linnet::cpu::LINNET_ISA
