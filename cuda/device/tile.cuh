#pragma once

#include <cstdint>
#include <type_traits>

#include <mma.h>
#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/precision.cuh>

/// Matrix products of tiles in shared memory, for kernels that never write a whole matrix to memory. A block of 16 ×
/// 16 threads computes a square tile of the product. Each thread keeps a part of it, its thread tile, in registers.
///
/// Types: sums in registers are T. Factors in shared memory are S, which is T itself, or bfloat16 with T = float;
/// then tensor cores multiply them and sum in float32. Elements of tensors are E, which is T or S.

namespace linnet::cuda {

/// Calls `f` with zeros of types T, S and E for tensors of `dtype`. S depends on `precision()`, but is always
/// bfloat16 for tensors of bfloat16.
template <class F>
void dispatch_products(DType dtype, F&& f) {
  if (dtype == DType::bfloat16) return f(float{}, BFloat16{}, BFloat16{});
  if (dtype == DType::float32 && precision() == Precision::bfloat16) return f(float{}, BFloat16{}, float{});
  dispatch_floating(dtype, [&](auto zero) { f(zero, zero, zero); });
}

constexpr int kSide = 16;  ///< threads along each side of a tile
template <class S>
constexpr int kTile = sizeof(S) == 8 ? 32 : 64;  ///< rows and columns of a tile
template <class T>
constexpr int kThreadTile = kTile<T> / kSide;  ///< rows and columns of a thread tile: 16 bytes
constexpr int kDepth = 16;                     ///< rows of a panel: terms that a product adds between two barriers
/// The number of elements from one row to the next in shared memory. The padding shifts the banks. It also keeps rows
/// aligned to 16 bytes, so that one load takes a row of a thread tile, or to 32 bytes if tensor cores load them,
/// which require it (PTX ISA, wmma.load).
template <class S>
constexpr int kPitch = kTile<S> + (sizeof(S) == 2 ? 16 : 16 / static_cast<int>(sizeof(S)));
constexpr int kProductsPitch = kTile<float> + 8;

/// The first row (or column) of this thread's tile within the block's tile.
template <class T>
__device__ int thread_row() {
  return static_cast<int>(threadIdx.x) / kSide * kThreadTile<T>;
}
template <class T, int kColumns = kThreadTile<T>>
__device__ int thread_column() {
  return static_cast<int>(threadIdx.x) % kSide * kColumns;
}

/// This thread's sums of a tile. kColumns is less than the number of rows for products with at most kSide · kColumns
/// columns.
template <class T, int kColumns = kThreadTile<T>>
struct ThreadTile {
  T of[kThreadTile<T>][kColumns] = {};
};

/// The factors of a block's products: panels of the operands of scores, and whole tiles of weights and values. They
/// take 42.5 KB for float, 25.5 KB for double, and 25 KB for bfloat16 plus 18 KB for `products_tile`. Every GPU
/// allows 48 KB.
template <class S>
struct alignas(32) SharedTiles {
  S panel_a[kDepth][kPitch<S>];
  S panel_b[kDepth][kPitch<S>];
  S a[kTile<S>][kPitch<S>];
  S b[kTile<S>][kPitch<S>];
};

/// kCount neighbouring elements that one instruction loads or stores.
template <class T, int kCount = kThreadTile<T>>
struct alignas(kCount * sizeof(T)) PackOf {
  T of[kCount];
};

/// sum += aᵀ·b for a and b with `depth` rows, term by term. The term of row k, for row r of the sum and with factor y
/// from b, is skipped if `counts(k, r, y)` is false, so that 0 times infinity is never added.
template <class T, class S, int kColumns, class Counts>
__device__ void add_terms(ThreadTile<T, kColumns>& sum, const S (*a)[kPitch<S>], const S (*b)[kPitch<S>], int depth,
                          Counts counts) {
#pragma unroll 4
  for (int k = 0; k < depth; ++k) {
    const PackOf<S> p = *reinterpret_cast<const PackOf<S>*>(&a[k][thread_row<T>()]);
    const auto q = *reinterpret_cast<const PackOf<S, kColumns>*>(&b[k][thread_column<T, kColumns>()]);
#pragma unroll
    for (int r = 0; r < kThreadTile<T>; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const T y = static_cast<T>(q.of[c]);
        if (counts(k, r, y)) sum.of[r][c] += static_cast<T>(p.of[r]) * y;
      }
    }
  }
}

/// A tile in shared memory where tensor cores store products for the threads to read.
__device__ inline float (*products_tile())[kProductsPitch] {
  alignas(32) __shared__ float tile[kTile<float>][kProductsPitch];
  return tile;
}

/// sum += aᵀ·b by tensor cores, from sm_80 on. Each warp computes 16 rows of half the columns. All threads of the
/// block must call it.
template <int kColumns>
__device__ void add_tensor_core_products(ThreadTile<float, kColumns>& sum, const BFloat16 (*a)[kPitch<BFloat16>],
                                         const BFloat16 (*b)[kPitch<BFloat16>], int depth) {
#if __CUDA_ARCH__ >= 800
  using namespace nvcuda::wmma;
  constexpr int kStep = 16, kHalf = kSide * kColumns / 2;
  const int warp = static_cast<int>(threadIdx.x) / 32, row = warp / 2 * kStep;
  float(*tile)[kProductsPitch] = products_tile();
#pragma unroll
  for (int column = warp % 2 * kHalf, end = column + kHalf; column < end; column += kStep) {
    fragment<accumulator, kStep, kStep, kStep, float> product;
    fill_fragment(product, 0.0f);
    for (int k = 0; k < depth; k += kStep) {
      fragment<matrix_a, kStep, kStep, kStep, BFloat16, col_major> left;
      fragment<matrix_b, kStep, kStep, kStep, BFloat16, row_major> right;
      load_matrix_sync(left, &a[k][row], kPitch<BFloat16>);
      load_matrix_sync(right, &b[k][column], kPitch<BFloat16>);
      mma_sync(product, left, right, product);
    }
    store_matrix_sync(&tile[row][column], product, kProductsPitch, mem_row_major);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kThreadTile<float>; ++r) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      sum.of[r][c] += tile[thread_row<float>() + r][thread_column<float, kColumns>() + c];
    }
  }
  __syncthreads();  // before the next products overwrite these
#else
  add_terms(sum, a, b, depth, [](int, int, float) { return true; });
#endif
}

/// sum += aᵀ·b for a and b with `depth` rows, a multiple of 16. All threads of the block must call it.
template <class T, class S, int kColumns>
__device__ void add_product(ThreadTile<T, kColumns>& sum, const S (*a)[kPitch<S>], const S (*b)[kPitch<S>],
                            int depth) {
  if constexpr (std::is_same_v<S, T>) {
    add_terms(sum, a, b, depth, [](int, int, T) { return true; });
  } else {
    add_tensor_core_products(sum, a, b, depth);
  }
}

/// sum += aᵀ·b without the terms for which `counts(k, r)` is false; a has 0 there. All threads of the block must call
/// it. Tensor cores cannot skip a term, and 0 times infinity would be NaN. So this first adds the terms of infinities
/// and NaN in b that count, and then sets those elements of b to 0, which changes no other bit of the result. After
/// the call, b is no longer usable.
template <class T, class S, int kColumns, class Counts>
__device__ void add_product(ThreadTile<T, kColumns>& sum, const S (*a)[kPitch<S>], S (*b)[kPitch<S>], int depth,
                            Counts counts) {
  if constexpr (std::is_same_v<S, T>) {
    add_terms(sum, a, b, depth, [&](int k, int r, T) { return counts(k, r); });
  } else {
    constexpr int kWidth = kSide * kColumns;
    bool finite = true;
    for (int e = static_cast<int>(threadIdx.x); e < depth * kWidth; e += kThreads) {
      finite = finite && isfinite(static_cast<T>(b[e / kWidth][e % kWidth]));
    }
    if (!__syncthreads_and(finite)) {
      add_terms(sum, a, b, depth, [&](int k, int r, T y) { return !isfinite(y) && counts(k, r); });
      __syncthreads();  // all threads have read b
      for (int e = static_cast<int>(threadIdx.x); e < depth * kWidth; e += kThreads) {
        S& y = b[e / kWidth][e % kWidth];
        if (!isfinite(static_cast<T>(y))) y = S(T{0});
      }
      __syncthreads();
    }
    add_product(sum, a, b, depth);
  }
}

/// The tokens of one head as the rows of a matrix, `stride` elements apart. Rows before `begin` and padding rows
/// count as 0; their memory is not read.
template <class E>
struct HeadMatrix {
  E* data;
  int64_t stride, begin, count, width;
  const bool* padding_mask;
  int64_t mask_stride;

  __device__ bool has(int64_t row) const {
    return row >= begin && row < count && (padding_mask == nullptr || padding_mask[row * mask_stride]);
  }
  /// Whether each row starts at an address aligned for packs of `elements` elements.
  __device__ bool in_packs(int elements) const {
    return stride % elements == 0 && reinterpret_cast<uintptr_t>(data) % (elements * sizeof(E)) == 0;
  }
  __device__ E get(int64_t row, int64_t column) const {
    return column < width && has(row) ? data[row * stride + column] : E{0};
  }
};

/// tile[i][c] = x[first + i][column + c]
template <class S, class E>
__device__ void load_tile(S (*tile)[kPitch<S>], const HeadMatrix<const E>& x, int64_t first, int64_t column) {
  for (int e = static_cast<int>(threadIdx.x); e < kTile<S> * kTile<S>; e += kThreads) {
    const int i = e / kTile<S>, c = e % kTile<S>;
    tile[i][c] = x.get(first + i, column + c);
  }
}

/// panel[d][i] = x[first + i][column + d]
template <class S, class E>
__device__ void load_panel(S (*panel)[kPitch<S>], const HeadMatrix<const E>& x, int64_t first, int64_t column) {
  for (int e = static_cast<int>(threadIdx.x); e < kTile<S> * kDepth; e += kThreads) {
    const int i = e / kDepth, d = e % kDepth;
    panel[d][i] = x.get(first + i, column + d);
  }
}

/// x·yᵀ for the rows of x from `row` on and the rows of y from `column` on. All threads of the block must call it.
template <class T, class S, class E>
__device__ ThreadTile<T> products_of_rows(SharedTiles<S>& tiles, const HeadMatrix<const E>& x, int64_t row,
                                          const HeadMatrix<const E>& y, int64_t column) {
  ThreadTile<T> sum;
  for (int64_t d = 0; d < x.width; d += kDepth) {
    __syncthreads();  // the previous panels have been used
    load_panel(tiles.panel_a, x, row, d);
    load_panel(tiles.panel_b, y, column, d);
    __syncthreads();
    add_product(sum, tiles.panel_a, tiles.panel_b, kDepth);
  }
  return sum;
}

}  // namespace linnet::cuda
