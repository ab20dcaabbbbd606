#pragma once

#include <cstdint>
#include <type_traits>

#include <mma.h>
#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/precision.cuh>

/// Matrix products of tiles in shared memory, for kernels that never write a whole matrix to memory. A block of 256
/// threads, as 16 × 16, makes a square tile of the product, each thread a small square part of that.
///
/// What is summed and kept in registers is of type T; factors lie in shared memory as S: T itself, or bfloat16 beside
/// T = float, whose products tensor cores make and sum in float32. Tensors hold elements of type E: T, or S.

namespace linnet::cuda {

/// Calls `f` with zeros of T, S and E for tensors of `dtype`: S is as `precision()` says, but for bfloat16 no other.
template <class F>
void dispatch_products(DType dtype, F&& f) {
  if (dtype == DType::bfloat16) return f(float{}, BFloat16{}, BFloat16{});
  if (dtype == DType::float32 && precision() == Precision::bfloat16) return f(float{}, BFloat16{}, float{});
  dispatch_floating(dtype, [&](auto zero) { f(zero, zero, zero); });
}

constexpr int kSide = 16;
template <class S>
constexpr int kTile = sizeof(S) == 8 ? 32 : 64;  ///< rows and columns of a tile
template <class T>
constexpr int kPart = kTile<T> / kSide;  ///< rows and columns of a thread's part: 16 bytes
constexpr int kDepth = 16;               ///< of the slices that a product over the width is summed from
/// Between rows in shared memory: a multiple of 16 bytes, for loads of whole parts, that shifts the banks; of 32
/// where tensor cores read or write them, which is what they demand of each row and column (PTX ISA, wmma.load).
template <class S>
constexpr int kPitch = kTile<S> + (sizeof(S) == 2 ? 16 : 16 / static_cast<int>(sizeof(S)));
constexpr int kProductsPitch = kTile<float> + 8;

/// Rows (or columns) of a tile that this thread's part holds: first, first + 1, …
template <class T>
__device__ int part_row() {
  return static_cast<int>(threadIdx.x) / kSide * kPart<T>;
}
template <class T, int kColumns = kPart<T>>
__device__ int part_column() {
  return static_cast<int>(threadIdx.x) % kSide * kColumns;
}

/// Fewer columns than rows where the product has no more of them than kSide · kColumns.
template <class T, int kColumns = kPart<T>>
struct ThreadTile {
  T of[kPart<T>][kColumns] = {};
};

/// 42.5 KB for float, 25.5 KB for double, 25 KB for bfloat16 with 18 KB beside them for `products_tile`: within the
/// 48 KB that every GPU grants.
template <class S>
struct alignas(32) Tiles {
  S slice_a[kDepth][kPitch<S>];
  S slice_b[kDepth][kPitch<S>];
  S a[kTile<S>][kPitch<S>];
  S b[kTile<S>][kPitch<S>];
};

template <class T, int kCount = kPart<T>>
struct alignas(kCount * sizeof(T)) Strip {
  T of[kCount];
};

/// part += aᵀ·b for a and b with `depth` rows, term by term. Terms that `counts(k, r, y)` denies, for row k, row r of
/// the part and the factor y from b, are not added, not even as 0 times infinity.
template <class T, class S, int kColumns, class Counts>
__device__ void add_terms(ThreadTile<T, kColumns>& part, const S (*a)[kPitch<S>], const S (*b)[kPitch<S>], int depth,
                          Counts counts) {
#pragma unroll 4
  for (int k = 0; k < depth; ++k) {
    const Strip<S> p = *reinterpret_cast<const Strip<S>*>(&a[k][part_row<T>()]);
    const auto q = *reinterpret_cast<const Strip<S, kColumns>*>(&b[k][part_column<T, kColumns>()]);
#pragma unroll
    for (int r = 0; r < kPart<T>; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const T y = static_cast<T>(q.of[c]);
        if (counts(k, r, y)) part.of[r][c] += static_cast<T>(p.of[r]) * y;
      }
    }
  }
}

/// A tile through which tensor cores hand over their products.
__device__ inline float (*products_tile())[kProductsPitch] {
  alignas(32) __shared__ float tile[kTile<float>][kProductsPitch];
  return tile;
}

/// The same by tensor cores, from sm_80 on; all of the block must call it. A warp makes 16 rows and half the columns.
template <int kColumns>
__device__ void add_tensor_core_products(ThreadTile<float, kColumns>& part, const BFloat16 (*a)[kPitch<BFloat16>],
                                         const BFloat16 (*b)[kPitch<BFloat16>], int depth) {
#if __CUDA_ARCH__ >= 800
  using namespace nvcuda::wmma;
  constexpr int kStep = 16, kHalf = kSide * kColumns / 2;
  const int warp = static_cast<int>(threadIdx.x) / 32, row = warp / 2 * kStep;
  float(*tile)[kProductsPitch] = products_tile();
#pragma unroll
  for (int column = warp % 2 * kHalf, end = column + kHalf; column < end; column += kStep) {
    fragment<accumulator, kStep, kStep, kStep, float> sum;
    fill_fragment(sum, 0.0f);
    for (int k = 0; k < depth; k += kStep) {
      fragment<matrix_a, kStep, kStep, kStep, BFloat16, col_major> left;
      fragment<matrix_b, kStep, kStep, kStep, BFloat16, row_major> right;
      load_matrix_sync(left, &a[k][row], kPitch<BFloat16>);
      load_matrix_sync(right, &b[k][column], kPitch<BFloat16>);
      mma_sync(sum, left, right, sum);
    }
    store_matrix_sync(&tile[row][column], sum, kProductsPitch, mem_row_major);
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kPart<float>; ++r) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      part.of[r][c] += tile[part_row<float>() + r][part_column<float, kColumns>() + c];
    }
  }
  __syncthreads();  // before the next products take the place of these
#else
  add_terms(part, a, b, depth, [](int, int, float) { return true; });
#endif
}

/// part += aᵀ·b for a and b with `depth` rows, a multiple of 16. All of the block must call it.
template <class T, class S, int kColumns>
__device__ void add_product(ThreadTile<T, kColumns>& part, const S (*a)[kPitch<S>], const S (*b)[kPitch<S>],
                            int depth) {
  if constexpr (std::is_same_v<S, T>) {
    add_terms(part, a, b, depth, [](int, int, T) { return true; });
  } else {
    add_tensor_core_products(part, a, b, depth);
  }
}

/// The same without the terms that `counts(k, r)` denies, which have 0 in a. All of the block must call it. Tensor
/// cores leave out no term, but 0 times what is finite is 0: the rest of b is taken out of it, after its terms, so
/// that no other bits change. The caller needs b no more.
template <class T, class S, int kColumns, class Counts>
__device__ void add_product(ThreadTile<T, kColumns>& part, const S (*a)[kPitch<S>], S (*b)[kPitch<S>], int depth,
                            Counts counts) {
  if constexpr (std::is_same_v<S, T>) {
    add_terms(part, a, b, depth, [&](int k, int r, T) { return counts(k, r); });
  } else {
    constexpr int kWidth = kSide * kColumns;
    bool finite = true;
    for (int e = static_cast<int>(threadIdx.x); e < depth * kWidth; e += kThreads) {
      finite = finite && isfinite(static_cast<T>(b[e / kWidth][e % kWidth]));
    }
    if (!__syncthreads_and(finite)) {
      add_terms(part, a, b, depth, [&](int k, int r, T y) { return !isfinite(y) && counts(k, r); });
      __syncthreads();  // they have been used
      for (int e = static_cast<int>(threadIdx.x); e < depth * kWidth; e += kThreads) {
        S& y = b[e / kWidth][e % kWidth];
        if (!isfinite(static_cast<T>(y))) y = S(T{0});
      }
      __syncthreads();
    }
    add_product(part, a, b, depth);
  }
}

/// Rows of one head, `stride` elements apart. Those before `begin`, and those that `padding_mask` leaves out, are
/// taken for 0, unread.
template <class E>
struct Rows {
  E* data;
  int64_t stride, begin, count, width;
  const bool* padding_mask;
  int64_t mask_stride;

  __device__ bool has(int64_t row) const {
    return row >= begin && row < count && (padding_mask == nullptr || padding_mask[row * mask_stride]);
  }
  /// Whether each row begins with an aligned strip of so many elements.
  __device__ bool in_strips(int elements) const {
    return stride % elements == 0 && reinterpret_cast<uintptr_t>(data) % (elements * sizeof(E)) == 0;
  }
  __device__ E get(int64_t row, int64_t column) const {
    return column < width && has(row) ? data[row * stride + column] : E{0};
  }
};

/// tile[i][c] = x[first + i][column + c]
template <class S, class E>
__device__ void load_tile(S (*tile)[kPitch<S>], const Rows<const E>& x, int64_t first, int64_t column) {
  for (int e = static_cast<int>(threadIdx.x); e < kTile<S> * kTile<S>; e += kThreads) {
    const int i = e / kTile<S>, c = e % kTile<S>;
    tile[i][c] = x.get(first + i, column + c);
  }
}

/// slice[d][i] = x[first + i][column + d]
template <class S, class E>
__device__ void load_slice(S (*slice)[kPitch<S>], const Rows<const E>& x, int64_t first, int64_t column) {
  for (int e = static_cast<int>(threadIdx.x); e < kTile<S> * kDepth; e += kThreads) {
    const int i = e / kDepth, d = e % kDepth;
    slice[d][i] = x.get(first + i, column + d);
  }
}

/// x·yᵀ for the rows of x from `row` on and those of y from `column` on. All of the block must call it.
template <class T, class S, class E>
__device__ ThreadTile<T> products_of_rows(Tiles<S>& tiles, const Rows<const E>& x, int64_t row,
                                          const Rows<const E>& y, int64_t column) {
  ThreadTile<T> part;
  for (int64_t d = 0; d < x.width; d += kDepth) {
    __syncthreads();  // the last slices have been used
    load_slice(tiles.slice_a, x, row, d);
    load_slice(tiles.slice_b, y, column, d);
    __syncthreads();
    add_product(part, tiles.slice_a, tiles.slice_b, kDepth);
  }
  return part;
}

}  // namespace linnet::cuda
