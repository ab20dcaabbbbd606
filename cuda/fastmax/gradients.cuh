#pragma once

#include <linnet/cuda/fastmax/states.cuh>

/// Gradients of one side's x from the states of the other: ∂φ(x_n) = (w∘S) ỹ_n, and from it ∂x_n through the products
/// x_a·x_b.

namespace linnet::cuda {

/// ∂x of the tokens of one head, transposed as in LoadedSide: [width, positions].
template <class T>
struct EntryGradients {
  T* data;
  int64_t positions;

  __device__ T& at(int64_t row, int64_t n) const { return data[row * positions + n]; }
  /// Adds `values` to the neighbouring tokens n, n + 1, … of one row.
  __device__ void add(int64_t row, int64_t n, const T* values) const {
    PackOf<T>& place = *reinterpret_cast<PackOf<T>*>(&at(row, n));
    PackOf<T> sum = place;
#pragma unroll
    for (int c = 0; c < kThreadTile<T>; ++c) sum.of[c] += values[c];
    place = sum;
  }
};

/// The task of a block: the gradients of a tile of tokens.
template <class T>
struct DifferentiateTask {
  const FactorisedParams<T>& in;
  const LoadedSide<T>& own;
  const LoadedSide<T>& other;
  int64_t head, first;
  const T *x, *y, *state;
  bool reverse;

  /// Whether token i of `own`'s tile and token j of `other`'s tile at `position` form a weight.
  __device__ bool sees(int64_t position, int j, int i) const {
    return position != first || (reverse ? j >= i : j <= i);
  }
  /// The cotangents y_j·y_i of the weights of tokens j of `other`'s tile at `position`, and i.
  template <class S>
  __device__ ThreadTile<T> cotangents(SharedTiles<S>& tiles, int64_t position) const {
    return products_of_entries(in, tiles, other.y_at(in, head, position), y, in.width);
  }
  /// The denominator's part of the cotangent, t_j·t_i, where t is the last entry of ỹ.
  __device__ T denominator_cotangent(int64_t position, int j, int i) const {
    const int64_t last = in.width * in.positions;
    return other.y_at(in, head, position)[last + j] * y[last + i];
  }
};

/// Stores the block's tile: tile[j][i] from the thread tiles.
template <class T, class S>
__device__ void store(S (*tile)[kPitch<S>], const ThreadTile<T>& values) {
#pragma unroll
  for (int r = 0; r < kThreadTile<T>; ++r) {
#pragma unroll
    for (int c = 0; c < kThreadTile<T>; ++c) tile[thread_row<T>() + r][thread_column<T>() + c] = values.of[r][c];
  }
}

/// For intra-chunk weights that are sums of dropped features, stores their cotangents in shared.b. A chunk is then
/// one tile.
template <class T, class S>
__device__ void load_dropped_cotangents(const DifferentiateTask<T>& at, SharedFeatureTiles<T, S>& shared) {
  ThreadTile<T> weights = at.cotangents(shared, at.first);
#pragma unroll
  for (int r = 0; r < kThreadTile<T>; ++r) {
#pragma unroll
    for (int c = 0; c < kThreadTile<T>; ++c) {
      const int j = thread_row<T>() + r, i = thread_column<T>() + c;
      if (at.in.shared_denominator) weights.of[r][c] += at.denominator_cotangent(at.first, j, i);
      if (!at.sees(at.first, j, i)) weights.of[r][c] = 0;
    }
  }
  store(shared.b, weights);
}

/// ∂φ = (w∘S) ỹ of a tile of features, [slot, token]: the gradient of [FAST eq.26] [FAST eq.27], and when causal
/// that of [FAST eq.32] [FAST eq.33].
template <bool kDrops, class T, class S>
__device__ ThreadTile<T> feature_gradients(const DifferentiateTask<T>& at, SharedFeatureTiles<T, S>& shared,
                                           const FeatureTile<T>& tile) {
  const FactorisedParams<T>& in = at.in;
  ThreadTile<T> gradients;
  for (int64_t column = 0; column < in.width; column += kDepth) {
    __syncthreads();  // the previous panels have been used
    fill_columns(shared.panel_a, kDepth, kTile<T>, [&](int d, int slot) {
      return column + d < in.width ? at.state[tile.row(slot) * in.entries() + column + d] : T{0};
    });
    fill(shared.panel_b, kDepth, kTile<T>,
         [&](int d, int n) { return column + d < in.width ? at.y[(column + d) * in.positions + n] : T{0}; });
    __syncthreads();
    add_product(gradients, shared.panel_a, shared.panel_b, kDepth);
  }
  if constexpr (kDrops) {
    if (in.causal && in.drops_features()) {
      const T* other_x = at.other.x_at(in, at.head, at.first);
      __syncthreads();  // the previous mask has been used
      shared.mask.draw(tile, at.other.key, at.head, at.first);
      __syncthreads();
      fill_columns(shared.a, kTile<T>, kTile<T>, [&](int j, int slot) {
        return shared.mask.keeps(tile, slot, j) ? tile.feature(other_x, slot, j) : T{0};
      });
      __syncthreads();
      add_product(gradients, shared.a, shared.b, kTile<T>);
    }
    __syncthreads();
    shared.mask.draw(tile, at.own.key, at.head, at.first);
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kThreadTile<T>; ++r) {
    const int slot = thread_row<T>() + r;
    const T z = at.state[tile.row(slot) * in.entries() + in.width], dropped_weight = tile.dropped_weight(slot);
    const T undropped = in.shared_denominator ? T{0} : z * tile.weight(slot);
    const T shared_z = in.shared_denominator ? z * dropped_weight : T{0};
#pragma unroll
    for (int c = 0; c < kThreadTile<T>; ++c) {
      const int n = thread_column<T>() + c;
      const T t = at.y[in.width * in.positions + n];
      const bool kept = !kDrops || shared.mask.keeps(tile, slot, n);
      gradients.of[r][c] = (kept ? gradients.of[r][c] * dropped_weight + shared_z * t : T{0}) + undropped * t;
    }
  }
  return gradients;
}

/// A tile for sums of type T: `tiles.a`, or, if S is narrower, the memory of `products_tile`, whose rows are longer.
template <class T, class S>
__device__ T (*sums_tile(SharedTiles<S>& tiles))[kPitch<T>] {
  if constexpr (std::is_same_v<S, T>) {
    return tiles.a;
  } else {
    return reinterpret_cast<T(*)[kPitch<T>]>(products_tile());
  }
}

/// ∂x from ∂φ, over all tiles of features: a product x_a·x_b adds ∂φ·x_b to ∂x_a and ∂φ·x_a to ∂x_b. All features of
/// a warp's thread tiles share one entry a, so the warp adds to ∂x_a without the others. The sums for ∂x_b stay in
/// registers during consecutive tiles with the same entries b.
template <bool kDrops, class T, class S>
__device__ void differentiate_features(const DifferentiateTask<T>& at, SharedFeatureTiles<T, S>& shared,
                                       const EntryGradients<T>& to) {
  const FactorisedParams<T>& in = at.in;
  for (int64_t t = 0; t < in.linear_tiles; ++t) {
    const FeatureTile<T> tile(in, t);
    const ThreadTile<T> gradients = feature_gradients<kDrops>(at, shared, tile);
#pragma unroll
    for (int r = 0; r < kThreadTile<T>; ++r) {
#pragma unroll
      for (int c = 0; c < kThreadTile<T>; ++c) {
        const int64_t row = tile.b + thread_row<T>() + r;
        if (row < in.width) to.at(row, thread_column<T>() + c) = gradients.of[r][c];
      }
    }
  }
  __syncthreads();  // before other threads add to these gradients
  ThreadTile<T> sums;
  for (int64_t t = in.linear_tiles; t < in.tiles; ++t) {
    const FeatureTile<T> tile(in, t);
    const ThreadTile<T> gradients = feature_gradients<kDrops>(at, shared, tile);
    T of_left[kThreadTile<T>] = {};
#pragma unroll
    for (int c = 0; c < kThreadTile<T>; ++c) {
      const int n = thread_column<T>() + c;
      const T left = tile.left(at.x, thread_row<T>(), n);
#pragma unroll
      for (int r = 0; r < kThreadTile<T>; ++r) {
        of_left[c] += gradients.of[r][c] * tile.right(at.x, thread_row<T>() + r, n);
        sums.of[r][c] += gradients.of[r][c] * left;
      }
      of_left[c] += shuffle(of_left[c], kSide);  // the other half of the warp has summed over the other entries b
    }
    const int64_t left_row = tile.a + thread_row<T>() / kRight<T>;
    if (threadIdx.x % kWarp < kSide && left_row < in.width) to.add(left_row, thread_column<T>(), of_left);
    if (!tile.is_diagonal()) continue;

    __syncthreads();  // the features in the tile have been used
    T(*const block_sums)[kPitch<T>] = sums_tile<T>(shared);
    store(block_sums, sums);
    sums = ThreadTile<T>();
    __syncthreads();
    for (int e = static_cast<int>(threadIdx.x); e < kRight<T> * kTile<T>; e += kThreads) {
      const int r = e / kTile<T>, n = e % kTile<T>;
      T sum = 0;
      for (int slot = r; slot < kTile<T>; slot += kRight<T>) sum += block_sums[slot][n];
      if (tile.b + r < in.width) to.at(tile.b + r, n) += sum;
    }
    __syncthreads();  // before other threads add to these gradients
  }
}

/// Intra-chunk: ∂x_i += Σ_j f'(s_ij) (y_j·y_i + t_j·t_i) x_j over the tile of the other side at `position`. This is
/// the gradient of [FAST eq.30] [FAST eq.31].
template <bool kDrops, class T, class S>
__device__ void differentiate_scores(const DifferentiateTask<T>& at, SharedFeatureTiles<T, S>& shared,
                                     int64_t position, const EntryGradients<T>& to) {
  const FactorisedParams<T>& in = at.in;
  const T* other_x = at.other.x_at(in, at.head, position);
  const ThreadTile<T> scores = products_of_entries(in, shared, other_x, at.x, in.width);
  ThreadTile<T> gradients = at.cotangents(shared, position);
  // If weights are sums of dropped features, differentiate_features has added their gradients.
  const bool through_features = kDrops && in.drops_features();
#pragma unroll
  for (int c = 0; c < kThreadTile<T>; ++c) {
    const int i = thread_column<T>() + c;
    const T factor = kDrops ? at.own.factor_at(in, at.head, at.first + i) : T{1};
#pragma unroll
    for (int r = 0; r < kThreadTile<T>; ++r) {
      const int j = thread_row<T>() + r;
      const T t = at.denominator_cotangent(position, j, i);
      const T kept = kDrops ? factor * at.other.factor_at(in, at.head, position + j) : T{1};
      const T dropped = gradients.of[r][c] + (in.shared_denominator ? t : T{0});
      const T cotangent = (through_features ? T{0} : kept * dropped) + (in.shared_denominator ? T{0} : t);
      // [FAST eq.15]
      gradients.of[r][c] = at.sees(position, j, i) ? (in.a1 + 2 * in.a2 * scores.of[r][c]) * cotangent : T{0};
    }
  }
  __syncthreads();  // the tiles have been used
  store(shared.a, gradients);
  for (int64_t row = 0; row < in.width; row += kTile<T>) {
    fill_columns(shared.b, kTile<T>, kTile<T>,
                 [&](int j, int d) { return row + d < in.width ? other_x[(row + d) * in.positions + j] : T{0}; });
    __syncthreads();
    ThreadTile<T> sum;
    add_product(sum, shared.b, shared.a, kTile<T>);
#pragma unroll
    for (int r = 0; r < kThreadTile<T>; ++r) {
      const int64_t d = row + thread_row<T>() + r;
      if (d < in.width) to.add(d, thread_column<T>(), sum.of[r]);
    }
    __syncthreads();  // before the next rows overwrite these
  }
}

/// A block computes ∂x of a tile of tokens, from the state before its chunk and, when causal, from the chunk itself,
/// as in apply_states. Multiplications bound it: 2·N·M·(D + 1) in all, and 6·N·c·D inside chunks of c tokens.
template <class T, class S, bool kDrops>
__global__ void __launch_bounds__(kThreads)
    differentiate(FactorisedParams<T> in, LoadedSide<T> own, LoadedSide<T> other, ChunkGroup chunk_group,
                  const T* states, int64_t state_size, T* gradients) {
  __shared__ SharedFeatureTiles<T, S> shared;
  const int64_t tiles = ceil_div(chunk_group.chunk_size, kTile<T>);
  for (int64_t index = blockIdx.x; index < chunk_group.count() * tiles; index += gridDim.x) {
    const int64_t state_index = index / tiles, head = chunk_group.head_of(state_index);
    const int64_t begin = chunk_group.first_of(state_index),
                  end = min(begin + chunk_group.chunk_size, chunk_group.end);
    const int64_t first = begin + index % tiles * kTile<T>;
    if (first >= end || !own.has_any(first, kTile<T>)) continue;
    const DifferentiateTask<T> at{in,
                                  own,
                                  other,
                                  head,
                                  first,
                                  own.x_at(in, head, first),
                                  own.y_at(in, head, first),
                                  states + state_index * state_size,
                                  chunk_group.reverse};
    const EntryGradients<T> to{gradients + head * in.width * in.positions + first, in.positions};
    if (kDrops && in.causal && in.drops_features()) load_dropped_cotangents(at, shared);
    differentiate_features<kDrops>(at, shared, to);
    if (!in.causal) continue;
    const int64_t until = chunk_group.reverse ? end : min(first + kTile<T>, end);
    for (int64_t position = chunk_group.reverse ? first : begin; position < until; position += kTile<T>) {
      differentiate_scores<kDrops>(at, shared, position, to);
    }
  }
}

}  // namespace linnet::cuda
