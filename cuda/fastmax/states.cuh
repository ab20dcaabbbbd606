#pragma once

#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/fastmax/features.cuh>

/// States: the sums over tokens S = Σ_n φ(x_n) ỹ_nᵀ, first of each chunk, then over the chunks before it.

namespace linnet::cuda {

/// The bytes of workspace for states. The number does not affect results.
constexpr int64_t kStateBytes = int64_t{256} << 20;

/// The chunks whose states are in memory at a time: `chunks` chunks of each of `heads` heads, in the order of the
/// sum. State s is that of chunk s % chunks of head s / chunks of the group.
struct ChunkGroup {
  int64_t first_head, heads;
  int64_t first_chunk, chunks;
  int64_t chunk_size, end;  ///< the number of positions of a chunk, and the end of all positions
  bool reverse;             ///< the sum goes from the last chunk to the first

  __host__ __device__ int64_t count() const { return heads * chunks; }
  __host__ __device__ int64_t all_chunks() const { return ceil_div(end, chunk_size); }
  __device__ int64_t head_of(int64_t state_index) const { return first_head + state_index / chunks; }
  /// The first position of a state's chunk.
  __device__ int64_t first_of(int64_t state_index) const {
    const int64_t chunk = first_chunk + state_index % chunks;
    return (reverse ? all_chunks() - 1 - chunk : chunk) * chunk_size;
  }
};

/// S = Σ_n φ(x_n) ỹ_nᵀ over the tokens of each chunk alone, [features, width + 1]. Column `width` is that of the
/// denominator. It sums undropped features, unless the denominator shares the dropout. A block computes one tile of
/// features and one tile of columns. Multiplications bound it, 2·N·M·(D + 1) in all.
template <class T, class S, int kColumns, bool kDrops>
__global__ void __launch_bounds__(kThreads)
    sum_features(FactorisedParams<T> in, LoadedSide<T> side, ChunkGroup chunk_group, T* states, int64_t state_size,
                 int64_t column_tiles) {
  __shared__ SharedFeatureTiles<T, S> shared;
  constexpr int kTileColumns = kSide * kColumns;
  for (int64_t index = blockIdx.x; index < chunk_group.count() * in.tiles * column_tiles; index += gridDim.x) {
    const int64_t state_index = index / column_tiles / in.tiles, head = chunk_group.head_of(state_index),
                  column = index % column_tiles * kTileColumns;
    const FeatureTile<T> tile(in, index / column_tiles % in.tiles);
    ThreadTile<T, kColumns> sum;
    T last[kThreadTile<T>] = {};
    const int64_t first = chunk_group.first_of(state_index),
                  end = min(first + chunk_group.chunk_size, chunk_group.end);
    for (int64_t position = first; position < end; position += kTile<T>) {
      const T* x = side.x_at(in, head, position);
      const T* y = side.y_at(in, head, position);
      __syncthreads();  // the previous tiles have been used
      if constexpr (kDrops) {
        shared.mask.draw(tile, side.key, head, position);
        __syncthreads();
      }
      const auto keeps = [&](int slot, int n) { return !kDrops || shared.mask.keeps(tile, slot, n); };
      fill_columns(shared.a, kTile<T>, kTile<T>,
                   [&](int n, int slot) { return keeps(slot, n) ? tile.feature(x, slot, n) : T{0}; });
      fill_columns(shared.b, kTile<T>, kTileColumns,
                   [&](int n, int c) { return column + c < in.width ? y[(column + c) * in.positions + n] : T{0}; });
      __syncthreads();
      add_product(sum, shared.a, shared.b, kTile<T>);  // [FAST eq.28]
      if (column > 0) continue;
      for (int n = static_cast<int>(threadIdx.x) % kSide; n < kTile<T>; n += kSide) {
        const T t = y[in.width * in.positions + n];
#pragma unroll
        for (int r = 0; r < kThreadTile<T>; ++r) {
          const int slot = thread_row<T>() + r;
          if (!in.shared_denominator || keeps(slot, n)) last[r] += tile.feature(x, slot, n) * t;  // [FAST eq.29]
        }
      }
    }
    T* state = states + state_index * state_size;
#pragma unroll
    for (int r = 0; r < kThreadTile<T>; ++r) {
      T* row = state + tile.row(thread_row<T>() + r) * in.entries();
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int64_t d = column + thread_column<T, kColumns>() + c;
        if (d < in.width) row[d] = sum.of[r][c];
      }
      const T total = reduce_lanes<kSide>(last[r], Plus());
      if (column == 0 && thread_column<T>() == 0) row[in.width] = total;
    }
  }
}

/// Adds up each head's states in the order of the chunks, beginning with `carried`, the sum of earlier groups. The
/// sum is in double, because there may be many chunks. Without `totals`, each chunk's state is replaced by the sum of
/// the chunks before it (the exclusive prefix sum). Otherwise `totals` becomes the sum of all chunks. Memory bounds
/// it.
template <class T>
__global__ void add_states(ChunkGroup chunk_group, T* states, double* carried, T* totals, int64_t state_size) {
  for (int64_t item = first_item(); item < chunk_group.heads * state_size; item += item_step()) {
    T* state = states + item / state_size * chunk_group.chunks * state_size + item % state_size;
    double sum = carried[item];
    for (int64_t chunk = 0; chunk < chunk_group.chunks; ++chunk, state += state_size) {
      const T own = *state;
      if (totals == nullptr) *state = static_cast<T>(sum);
      sum += own;  // [FAST eq.34] [FAST eq.35]
    }
    carried[item] = sum;
    if (totals != nullptr) totals[item] = static_cast<T>(sum);
  }
}

}  // namespace linnet::cuda
