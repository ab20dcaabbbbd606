#pragma once

#include <linnet/cuda/device/async_copy.cuh>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/mma.cuh>
#include <linnet/cuda/device/tile.cuh>

/// Products of tiles by tensor cores on a warp's registers (mma.cuh): rows of bfloat16 in shared memory, the sums of
/// the 16 rows that a warp computes, and the conversion of these sums into factors of the next product.

namespace linnet::cuda {

constexpr int kMmaTile = kTile<float>;  ///< rows of a block's tile
constexpr int kMmaThreads = kMmaTile / 16 * kWarp;

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % kWarp; }
__device__ inline int first_row_of_warp() { return static_cast<int>(threadIdx.x) / kWarp * 16; }

__device__ inline uint32_t packed(BFloat16 low, BFloat16 high) {
  return __bfloat16_as_ushort(low) | uint32_t{__bfloat16_as_ushort(high)} << 16;
}
__device__ inline uint32_t packed(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return packed(pair.x, pair.y);
}

/// Eight neighbouring bfloat16 numbers of a row in aligned memory, packed two to a word.
using Eight = PackOf<uint32_t, 4>;
__device__ inline Eight load_eight(const BFloat16* from) { return *reinterpret_cast<const Eight*>(from); }
__device__ inline Eight load_eight(const float* from) {
  const auto x = *reinterpret_cast<const PackOf<float, 8>*>(from);
  return {{packed(x.of[0], x.of[1]), packed(x.of[2], x.of[3]), packed(x.of[4], x.of[5]), packed(x.of[6], x.of[7])}};
}
__device__ inline void store_eight(BFloat16* to, Eight x) { *reinterpret_cast<Eight*>(to) = x; }

// ---- Factors ----

/// Rows in shared memory, in the order of the tensor. Each has 16 bytes of padding, so that the eight rows of an 8 ×
/// 8 matrix are in different banks.
template <int kWidth, int kRows = kMmaTile>
struct alignas(16) RowTile {
  BFloat16 of[kRows][kWidth + 8];
};

/// Copies eight columns into a tile. If their elements must be converted, they are there when this returns; otherwise
/// after wait_for_copies().
__device__ inline void copy_eight(BFloat16* to, const BFloat16* from, bool has) { copy_async(to, from, has); }
__device__ inline void copy_eight(BFloat16* to, const float* from, bool has) {
  Eight of = {};
  if (has) of = load_eight(from);
  store_eight(to, of);
}

/// tile[i] = x[first + i], with zeros beyond the width of x. It is complete after wait_for_copies() and a barrier. A
/// thread loads eight columns at a time if x has all kWidth columns and is aligned, otherwise two.
template <int kWidth, int kRows, class E>
__device__ void load_rows(RowTile<kWidth, kRows>& tile, const HeadMatrix<const E>& x, int64_t first) {
  if (x.width == kWidth && x.in_packs(8)) {
    constexpr int kThreadsOfRow = kWidth / 8, kStep = kMmaThreads / kThreadsOfRow;
    const int row = static_cast<int>(threadIdx.x) / kThreadsOfRow;
    const int column = static_cast<int>(threadIdx.x) % kThreadsOfRow * 8;
    const auto load = [&](auto has) {
      const E* from = x.data + (first + row) * x.stride + column;
#pragma unroll
      for (int i = row, step = 0; step < kRows / kStep; ++step, i += kStep, from += kStep * x.stride) {
        copy_eight(&tile.of[i][column], from, has(i));
      }
    };
    const bool all = x.padding_mask == nullptr && x.begin <= first && first + kRows <= x.count;
    all ? load([](int) { return true; }) : load([&](int i) { return x.has(first + i); });
    return;
  }
  constexpr int kPairs = kWidth / 2, kStep = kMmaThreads / kPairs;
  const int column = static_cast<int>(threadIdx.x) % kPairs * 2;
  const bool low = column < x.width, high = column + 1 < x.width;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x) / kPairs, step = 0; step < kRows / kStep; ++step, i += kStep) {
    const bool has = x.has(first + i);
    const E* at = x.data + (first + i) * x.stride + column;
    *reinterpret_cast<PackOf<BFloat16, 2>*>(&tile.of[i][column]) = {
        {BFloat16(has && low ? at[0] : E(0.0f)), BFloat16(has && high ? at[1] : E(0.0f))}};
  }
}

/// Waits for the copies of all threads of the block.
__device__ inline void wait_for_rows() {
  wait_for_copies();
  __syncthreads();
}

/// Calls `use(at, buffer)` for each step from `begin` on, after `load(at, buffer)` and all earlier loads have
/// completed. If there are two buffers, the next rows are loaded meanwhile. All threads of the block must call it.
template <int kBuffers, int kStep, class Load, class Use>
__device__ void for_each_step(int64_t begin, int64_t end, Load load, Use use) {
  static_assert(kBuffers == 1 || kBuffers == 2);
  if (begin >= end) return wait_for_copies();  // because later copies may go to the same memory
  load(begin, 0);
  int buffer = 0;
  for (int64_t at = begin; at < end; at += kStep) {
    wait_for_rows();  // also for threads that still used the other buffer
    const int64_t next = at + kStep;
    if (kBuffers == 2 && next < end) load(next, 1 - buffer);
    use(at, buffer);
    if (kBuffers == 2) {
      buffer = 1 - buffer;
    } else if (next < end) {
      __syncthreads();  // before the next rows overwrite these
      load(next, 0);
    }
  }
}

/// A warp's 16 rows of a tile, as left factors.
template <int kWidth>
struct LeftRows {
  uint32_t of[kWidth / 16][4];

  __device__ explicit LeftRows(const RowTile<kWidth>& tile) {
#pragma unroll
    for (int d = 0; d < kWidth; d += 16) {
      load_matrices(of[d / 16], &tile.of[first_row_of_warp() + lane() % 16][d + lane() / 16 * 8]);
    }
  }
};

// ---- Products ----

/// A thread's sums of a warp's 16 rows.
template <int kColumns>
struct WarpSums {
  float of[2][kColumns / 4] = {};

  __device__ static int row(int r) { return first_row_of_warp() + lane() / 4 + 8 * r; }
  __device__ static int column(int c) { return c / 2 * 8 + lane() % 4 * 2 + c % 2; }

  /// Adds a·b to the 8 columns from `column` on.
  __device__ void add(int column, const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    const int c = column / 4;
    multiply_add(of[0][c], of[0][c + 1], of[1][c], of[1][c + 1], a, b0, b1);
  }
};

/// a·bᵀ
template <int kWidth, int kRows>
__device__ WarpSums<kRows> products(const LeftRows<kWidth>& a, const RowTile<kWidth, kRows>& b) {
  WarpSums<kRows> result;
#pragma unroll
  for (int j = 0; j < kRows; j += 16) {
#pragma unroll
    for (int d = 0; d < kWidth; d += 16) {
      uint32_t m[4];  // rows j and d, j and d + 8, j + 8 and d, j + 8 and d + 8
      load_matrices(m, &b.of[j + lane() / 16 * 8 + lane() % 8][d + lane() / 8 % 2 * 8]);
      result.add(j, a.of[d / 16], m[0], m[1]);
      result.add(j + 8, a.of[d / 16], m[2], m[3]);
    }
  }
  return result;
}

/// sum += factors·b. The lanes of a warp meet here, because they may take different branches while they make
/// `factors`.
template <int kWidth, int kRows>
__device__ void add_product(WarpSums<kWidth>& sum, const WarpSums<kRows>& factors, const RowTile<kWidth, kRows>& b) {
  __syncwarp();
#pragma unroll
  for (int k = 0; k < kRows; k += 16) {
    const int c = k / 4;
    const uint32_t a[] = {
        packed(factors.of[0][c], factors.of[0][c + 1]), packed(factors.of[1][c], factors.of[1][c + 1]),
        packed(factors.of[0][c + 2], factors.of[0][c + 3]), packed(factors.of[1][c + 2], factors.of[1][c + 3])};
#pragma unroll
    for (int d = 0; d < kWidth; d += 16) {
      uint32_t m[4];  // rows k and d, k + 8 and d, k and d + 8, k + 8 and d + 8
      load_transposed(m, &b.of[k + lane() % 16][d + lane() / 16 * 8]);
      sum.add(d, a, m[0], m[1]);
      sum.add(d + 8, a, m[2], m[3]);
    }
  }
}

/// Adds the terms of infinities and NaN in b, and sets those elements of b to 0. The term of row r of the sum and row
/// k of b is skipped if `counts(r, k)` is false; `factors` has 0 there. This is needed before a product by tensor
/// cores, because they cannot skip a term, and 0 times infinity would be NaN. All threads of the block must call it,
/// after they have read b.
template <int kWidth, int kRows, class Counts>
__device__ void add_infinities(WarpSums<kWidth>& sum, const WarpSums<kRows>& factors, RowTile<kWidth, kRows>& b,
                               Counts counts) {
  uint32_t exponents = 0;  // of pairs; the top bit is set if an exponent is all ones
#pragma unroll
  for (int step = 0; step < kRows * kWidth / 8 / kMmaThreads; ++step) {
    const int e = (step * kMmaThreads + static_cast<int>(threadIdx.x)) * 8;
    const Eight eight = load_eight(&b.of[e / kWidth][e % kWidth]);
#pragma unroll
    for (const uint32_t pair : eight.of) exponents |= (pair & 0x7f807f80) + 0x00800080;
  }
  if (__syncthreads_and((exponents & 0x80008000) == 0)) return;
#pragma unroll 1
  for (int k = 0; k < kRows; ++k) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float factor = 0;  // one of the row's four lanes has it
#pragma unroll
      for (int c = 0; c < kRows / 4; ++c) factor += factors.column(c) == k ? factors.of[r][c] : 0.0f;
      factor = reduce_lanes<4>(factor, Plus());
#pragma unroll
      for (int c = 0; c < kWidth / 4; ++c) {
        const auto y = static_cast<float>(b.of[k][sum.column(c)]);
        if (!isfinite(y) && counts(sum.row(r), k)) sum.of[r][c] += factor * y;
      }
    }
  }
  __syncthreads();  // all threads have read b
  for (int e = static_cast<int>(threadIdx.x); e < kRows * kWidth; e += kMmaThreads) {
    BFloat16& y = b.of[e / kWidth][e % kWidth];
    if (!isfinite(static_cast<float>(y))) y = BFloat16(0.0f);
  }
  __syncthreads();
}

/// Writes a warp's rows of a result whose block's tile begins at row `first`. It writes in pairs if rows are aligned.
template <int kWidth, class E, class Value>
__device__ void store_rows(const HeadMatrix<E>& x, int64_t first, const WarpSums<kWidth>& sum, Value value) {
  using Two = PackOf<E, 2>;
  const bool pairs = x.in_packs(2);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int64_t i = first + sum.row(r);
    if (i >= x.count) continue;
#pragma unroll
    for (int c = 0; c < kWidth / 4; c += 2) {
      const int column = sum.column(c);
      E* to = x.data + i * x.stride + column;
      const Two two = {{E(value(r, sum.of[r][c], i)), E(value(r, sum.of[r][c + 1], i))}};
      if (pairs && column + 1 < x.width) {
        *reinterpret_cast<Two*>(to) = two;
      } else {
        if (column < x.width) to[0] = two.of[0];
        if (column + 1 < x.width) to[1] = two.of[1];
      }
    }
  }
}

}  // namespace linnet::cuda
