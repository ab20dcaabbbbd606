#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include <linnet/ops/cpu/blas.h>
#include <linnet/ops/cpu/device/head_rows.h>
#include <linnet/ops/cpu/matmul/bf16x3_gemm.h>
#include <linnet/ops/cpu/matmul/packed_gemm.h>

/// Matrix products on the calling thread, by the fastest of three ways: packed products (packed_gemm.h); with AMX,
/// products of three bfloat16 terms (bf16x3_gemm.h); and BLAS for thin matrices.

namespace linnet::cpu::LINNET_ISA {

/// A product of fewer rows is thin, as is one of fewer columns than a panel. Its elements are used too seldom for
/// packing to pay.
constexpr int64_t kThinRows = 16;
template <class T>
constexpr bool is_thin(int64_t rows, int64_t columns) {
  return rows < kThinRows || columns < packed::kWidth<T>;
}

/// c = base, or 0 where there is none.
template <class T>
void start_from(Rows<const T> base, int64_t rows, int64_t columns, Rows<T> c) {
  for (int64_t r = 0; r < rows; ++r) {
    if (base.data != nullptr) {
      std::copy_n(base[r], columns, c[r]);
    } else {
      std::fill_n(c[r], columns, T{0});
    }
  }
}

/// c = a·b + base by BLAS.
template <class T>
void thin_gemm(int64_t rows, int64_t columns, int64_t depth, Matrix<T> a, Matrix<T> b, Rows<const T> base,
               Rows<T> c) {
  if (base.data != nullptr) start_from(base, rows, columns, c);
  const bool transpose_a = a.column != 1, transpose_b = b.column != 1;
  // BLAS asks for strides of at least the width, even of a matrix of one row.
  const int64_t lda = transpose_a ? stride_for(a.column, rows) : stride_for(a.row, depth);
  const int64_t ldb = transpose_b ? stride_for(b.column, depth) : stride_for(b.row, columns);
  gemm<T>(transpose_a, transpose_b, rows, columns, depth, 1, a.data, lda, b.data, ldb, base.data != nullptr ? 1 : 0,
          c.data, c.stride);
}

/// The right factor, packed for several tasks.
template <class T>
using SharedPanels = std::conditional_t<kUsesBf16x3<T>, Bf16x3Panels, PackedPanels<T>>;

/// c = a·b + base, from the shared panels of b where `shared_at` is not null.
template <class T, class SharedAt>
void tiled_gemm(int64_t rows, int64_t columns, int64_t depth, Matrix<T> a, Matrix<T> b, SharedAt shared_at,
                bool too_short, Rows<const T> base, Rows<T> c) {
  if constexpr (kUsesBf16x3<T>) {
    if (!too_short && bf16x3_gemm(rows, columns, depth, a, b, shared_at, base, c)) return;
    // Infinities, overflow and short sums: products of floats.
    const auto nothing_shared = [](int64_t, int64_t) -> const T* { return nullptr; };
    packed_gemm<T>(rows, columns, depth, a, b, nothing_shared, base, c);
  } else {
    packed_gemm<T>(rows, columns, depth, a, b, shared_at, base, c);
  }
}

/// c = a·b + base on the calling thread, for a and b that each have a unit stride in one dim; no base where its data
/// is null. c does not overlap the base.
template <class T>
void serial_gemm(int64_t rows, int64_t columns, int64_t depth, Matrix<T> a, Matrix<T> b, Rows<const T> base,
                 Rows<T> c) {
  if (is_thin<T>(rows, columns)) return thin_gemm<T>(rows, columns, depth, a, b, base, c);
  using Panel = decltype(std::declval<SharedPanels<T>>().at(0, 0));
  const auto nothing_shared = [](int64_t, int64_t) -> Panel { return nullptr; };
  const bool too_short = kUsesBf16x3<T> && depth < bf16x3::kDepth;
  tiled_gemm<T>(rows, columns, depth, a, b, nothing_shared, too_short, base, c);
}

}  // namespace linnet::cpu::LINNET_ISA
