#pragma once

#include <cstdint>

#include <linnet/cuda/kernel.cuh>

/// Matrix products of tiles in shared memory, for kernels that never write a whole matrix to memory. A block of 256
/// threads, as 16 × 16, makes a square tile of the product, each thread a small square part of that.

namespace linnet::cuda {

constexpr int kSide = 16;
template <class T>
constexpr int kTile = sizeof(T) == 4 ? 64 : 32;  ///< rows and columns of a tile
template <class T>
constexpr int kPart = kTile<T> / kSide;  ///< rows and columns of a thread's part: 16 bytes
constexpr int kDepth = 16;               ///< of the slices that a product over the width is summed from
/// Between rows in shared memory: a multiple of 16 bytes, for loads of whole parts, that shifts the banks.
template <class T>
constexpr int kPitch = kTile<T> + kPart<T>;

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
struct Part {
  T of[kPart<T>][kColumns] = {};
};

/// 43.5 KB for float, 25.5 KB for double: within the 48 KB that every GPU grants.
template <class T>
struct alignas(16) Tiles {
  T slice_a[kDepth][kPitch<T>];
  T slice_b[kDepth][kPitch<T>];
  T a[kTile<T>][kPitch<T>];
  T b[kTile<T>][kPitch<T>];
};

template <class T, int kCount = kPart<T>>
struct alignas(kCount * sizeof(T)) Strip {
  T of[kCount];
};

/// part += aᵀ·b for a and b with `depth` rows. Terms that `counts(k, r)` denies, for row k and row r of the part, are
/// not added, not even as 0 times infinity.
template <class T, int kColumns, class Counts>
__device__ void add_product(Part<T, kColumns>& part, const T (*a)[kPitch<T>], const T (*b)[kPitch<T>], int depth,
                            Counts counts) {
#pragma unroll 4
  for (int k = 0; k < depth; ++k) {
    const Strip<T> p = *reinterpret_cast<const Strip<T>*>(&a[k][part_row<T>()]);
    const auto q = *reinterpret_cast<const Strip<T, kColumns>*>(&b[k][part_column<T, kColumns>()]);
#pragma unroll
    for (int r = 0; r < kPart<T>; ++r) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (counts(k, r)) part.of[r][c] += p.of[r] * q.of[c];
      }
    }
  }
}

template <class T, int kColumns>
__device__ void add_product(Part<T, kColumns>& part, const T (*a)[kPitch<T>], const T (*b)[kPitch<T>], int depth) {
  add_product(part, a, b, depth, [](int, int) { return true; });
}

/// Rows of one head, `stride` elements apart, of which `keep` may leave some out: those are taken for 0, unread.
template <class T>
struct Rows {
  T* data;
  int64_t stride, count, width;
  const bool* keep;
  int64_t keep_stride;

  __device__ bool has(int64_t row) const { return row < count && (keep == nullptr || keep[row * keep_stride]); }
  __device__ T get(int64_t row, int64_t column) const {
    return column < width && has(row) ? data[row * stride + column] : T{0};
  }
};

/// tile[i][c] = x[first + i][column + c]
template <class T>
__device__ void load_tile(T (*tile)[kPitch<T>], const Rows<const T>& x, int64_t first, int64_t column) {
  for (int e = static_cast<int>(threadIdx.x); e < kTile<T> * kTile<T>; e += kThreads) {
    const int i = e / kTile<T>, c = e % kTile<T>;
    tile[i][c] = x.get(first + i, column + c);
  }
}

/// slice[d][i] = x[first + i][column + d]
template <class T>
__device__ void load_slice(T (*slice)[kPitch<T>], const Rows<const T>& x, int64_t first, int64_t column) {
  for (int e = static_cast<int>(threadIdx.x); e < kTile<T> * kDepth; e += kThreads) {
    const int i = e / kDepth, d = e % kDepth;
    slice[d][i] = x.get(first + i, column + d);
  }
}

/// x·yᵀ for the rows of x from `row` on and those of y from `column` on. All of the block must call it.
template <class T>
__device__ Part<T> products_of_rows(Tiles<T>& tiles, const Rows<const T>& x, int64_t row, const Rows<const T>& y,
                                    int64_t column) {
  Part<T> part;
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
