#pragma once

#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/fastmax/features.cuh>

/// Sums over tokens, S = Σ_n φ(x_n) ỹ_nᵀ: of each chunk, and then over the chunks.

namespace linnet::cuda {

/// Of the states that are held at a time. How many that is shows in no result.
constexpr int64_t kStateBytes = int64_t{256} << 20;

/// The chunks whose states are held at a time: `chunks` of each of `heads` heads, in the order of the sum. Lane l is
/// chunk l % chunks of head l / chunks.
struct ChunkGroup {
  int64_t head, heads;   ///< the first, and how many
  int64_t step, chunks;  ///< likewise of the chunks
  int64_t chunk, end;    ///< positions of a chunk, and the position behind the last
  bool reverse;          ///< the sum goes from the last chunk to the first

  __host__ __device__ int64_t count() const { return heads * chunks; }
  __host__ __device__ int64_t all_chunks() const { return ceil_div(end, chunk); }
  __device__ int64_t head_of(int64_t lane) const { return head + lane / chunks; }
  __device__ int64_t first_of(int64_t lane) const {
    const int64_t number = step + lane % chunks;
    return (reverse ? all_chunks() - 1 - number : number) * chunk;
  }
};

/// Each lane's state from its own tokens, [features, width + 1]; the last column is the denominator's, of undropped
/// features unless it shares the dropout. A block makes one tile of features and a panel of columns. Multiplications
/// bound it, 2·N·M·(D + 1) in all.
template <class T, class S, int kColumns, bool kDrops>
__global__ void __launch_bounds__(kThreads) sum_features(Factorised<T> in, Side<T> side, ChunkGroup chunk_group,
                                                         T* states, int64_t state_size, int64_t panels) {
  __shared__ FeatureTiles<T, S> shared;
  constexpr int kPanel = kSide * kColumns;
  for (int64_t index = blockIdx.x; index < chunk_group.count() * in.tiles * panels; index += gridDim.x) {
    const int64_t lane = index / panels / in.tiles, head = chunk_group.head_of(lane),
                  column = index % panels * kPanel;
    const FeatureTile<T> tile(in, index / panels % in.tiles);
    ThreadTile<T, kColumns> sum;
    T last[kPart<T>] = {};
    const int64_t first = chunk_group.first_of(lane), end = min(first + chunk_group.chunk, chunk_group.end);
    for (int64_t position = first; position < end; position += kTile<T>) {
      const T* x = side.x_at(in, head, position);
      const T* y = side.y_at(in, head, position);
      __syncthreads();  // the last tiles have been used
      if constexpr (kDrops) {
        shared.mask.draw(tile, side.key, head, position);
        __syncthreads();
      }
      const auto stays = [&](int slot, int n) { return !kDrops || shared.mask.stays(tile, slot, n); };
      fill_columns(shared.a, kTile<T>, kTile<T>,
                   [&](int n, int slot) { return stays(slot, n) ? tile.feature(x, slot, n) : T{0}; });
      fill_columns(shared.b, kTile<T>, kPanel,
                   [&](int n, int c) { return column + c < in.width ? y[(column + c) * in.positions + n] : T{0}; });
      __syncthreads();
      add_product(sum, shared.a, shared.b, kTile<T>);
      if (column > 0) continue;
      for (int n = static_cast<int>(threadIdx.x) % kSide; n < kTile<T>; n += kSide) {
        const T t = y[in.width * in.positions + n];
#pragma unroll
        for (int r = 0; r < kPart<T>; ++r) {
          const int slot = part_row<T>() + r;
          if (!in.shared_denominator || stays(slot, n)) last[r] += tile.feature(x, slot, n) * t;
        }
      }
    }
    T* state = states + lane * state_size;
#pragma unroll
    for (int r = 0; r < kPart<T>; ++r) {
      T* row = state + tile.row(part_row<T>() + r) * in.rows();
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int64_t d = column + part_column<T, kColumns>() + c;
        if (d < in.width) row[d] = sum.of[r][c];
      }
      const T total = reduce_lanes<kSide>(last[r], Plus());
      if (column == 0 && part_column<T>() == 0) row[in.width] = total;
    }
  }
}

/// Adds each head's states to its `carried` one, in the order of the chunks, in double, as there may be many. What
/// was there before, the sums of what each chunk sees besides itself, is left in their places; or, where it has a
/// place, the sum of all in `totals`. Memory bounds it.
template <class T>
__global__ void add_states(ChunkGroup chunk_group, T* states, double* carried, T* totals, int64_t state_size) {
  for (int64_t item = first_item(); item < chunk_group.heads * state_size; item += item_step()) {
    T* place = states + item / state_size * chunk_group.chunks * state_size + item % state_size;
    double sum = carried[item];
    for (int64_t chunk = 0; chunk < chunk_group.chunks; ++chunk, place += state_size) {
      const T own = *place;
      if (totals == nullptr) *place = static_cast<T>(sum);
      sum += own;
    }
    carried[item] = sum;
    if (totals != nullptr) totals[item] = static_cast<T>(sum);
  }
}

}  // namespace linnet::cuda
