#pragma once

#include <linnet/cuda/fastmax/states.cuh>

/// The gradients of one side's vectors from the sums over the other: ∂φ(x_n) = (w∘S) ỹ_n, and on through the products
/// that the features are.

namespace linnet::cuda {

/// ∂x̃, entry by entry along rows of positions: [heads, width, positions].
template <class T>
struct EntryGradients {
  T* data;
  int64_t positions;

  __device__ T& at(int64_t row, int64_t n) const { return data[row * positions + n]; }
  /// Adds to the neighbours n, n + 1, … of one row.
  __device__ void add(int64_t row, int64_t n, const T* values) const {
    Strip<T>& place = *reinterpret_cast<Strip<T>*>(&at(row, n));
    Strip<T> sum = place;
#pragma unroll
    for (int c = 0; c < kPart<T>; ++c) sum.of[c] += values[c];
    place = sum;
  }
};

/// A tile of tokens whose gradients are made, and those of its own chunk that it is weighed against.
template <class T>
struct Differentiated {
  const Factorised<T>& in;
  const Side<T>& own;
  const Side<T>& other;
  int64_t head, first;
  const T *x, *y, *state;
  bool reverse;

  /// Whether a token i of `own`'s tile sees j of `other`'s, at `position`.
  __device__ bool sees(int64_t position, int j, int i) const {
    return position != first || (reverse ? j >= i : j <= i);
  }
  /// The cotangents y_j·y_i of the weights of tokens j of the tile at `position`, and i; those of the denominators,
  /// t_j·t_i.
  template <class S>
  __device__ ThreadTile<T> cotangents(Tiles<S>& tiles, int64_t position) const {
    return products_of_entries(in, tiles, other.y_at(in, head, position), y, in.width);
  }
  __device__ T normaliser_cotangent(int64_t position, int j, int i) const {
    const int64_t last = in.width * in.positions;
    return other.y_at(in, head, position)[last + j] * y[last + i];
  }
};

/// tile[j][i] = the part's elements
template <class T, class S>
__device__ void store(S (*tile)[kPitch<S>], const ThreadTile<T>& part) {
#pragma unroll
  for (int r = 0; r < kPart<T>; ++r) {
#pragma unroll
    for (int c = 0; c < kPart<T>; ++c) tile[part_row<T>() + r][part_column<T>() + c] = part.of[r][c];
  }
}

/// Leaves in shared.b the cotangents of the weights that are made of dropped features, when causal; a chunk is one
/// tile then.
template <class T, class S>
__device__ void load_dropped_cotangents(const Differentiated<T>& at, FeatureTiles<T, S>& shared) {
  ThreadTile<T> weights = at.cotangents(shared, at.first);
#pragma unroll
  for (int r = 0; r < kPart<T>; ++r) {
#pragma unroll
    for (int c = 0; c < kPart<T>; ++c) {
      const int j = part_row<T>() + r, i = part_column<T>() + c;
      if (at.in.shared_denominator) weights.of[r][c] += at.normaliser_cotangent(at.first, j, i);
      if (!at.sees(at.first, j, i)) weights.of[r][c] = 0;
    }
  }
  store(shared.b, weights);
}

/// ∂φ of a tile of features and the tokens, [slot, token], before their products are gone through.
template <bool kDrops, class T, class S>
__device__ ThreadTile<T> feature_gradients(const Differentiated<T>& at, FeatureTiles<T, S>& shared,
                                           const FeatureTile<T>& tile) {
  const Factorised<T>& in = at.in;
  ThreadTile<T> gradients;
  for (int64_t column = 0; column < in.width; column += kDepth) {
    __syncthreads();  // the last slices have been used
    fill_columns(shared.slice_a, kDepth, kTile<T>, [&](int d, int slot) {
      return column + d < in.width ? at.state[tile.row(slot) * in.rows() + column + d] : T{0};
    });
    fill(shared.slice_b, kDepth, kTile<T>,
         [&](int d, int n) { return column + d < in.width ? at.y[(column + d) * in.positions + n] : T{0}; });
    __syncthreads();
    add_product(gradients, shared.slice_a, shared.slice_b, kDepth);
  }
  if constexpr (kDrops) {
    if (in.causal && in.drops_features()) {
      const T* other_x = at.other.x_at(in, at.head, at.first);
      __syncthreads();  // the last mask has been used
      shared.mask.draw(tile, at.other.key, at.head, at.first);
      __syncthreads();
      fill_columns(shared.a, kTile<T>, kTile<T>, [&](int j, int slot) {
        return shared.mask.stays(tile, slot, j) ? tile.feature(other_x, slot, j) : T{0};
      });
      __syncthreads();
      add_product(gradients, shared.a, shared.b, kTile<T>);
    }
    __syncthreads();
    shared.mask.draw(tile, at.own.key, at.head, at.first);
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < kPart<T>; ++r) {
    const int slot = part_row<T>() + r;
    const T z = at.state[tile.row(slot) * in.rows() + in.width], dropped_weight = tile.dropped_weight(slot);
    const T clean = in.shared_denominator ? T{0} : z * tile.weight(slot);
    const T shared_z = in.shared_denominator ? z * dropped_weight : T{0};
#pragma unroll
    for (int c = 0; c < kPart<T>; ++c) {
      const int n = part_column<T>() + c;
      const T t = at.y[in.width * in.positions + n];
      const bool stays = !kDrops || shared.mask.stays(tile, slot, n);
      gradients.of[r][c] = (stays ? gradients.of[r][c] * dropped_weight + shared_z * t : T{0}) + clean * t;
    }
  }
  return gradients;
}

/// A tile for sums, which are not rounded to S: `tiles.a`, or where that is too coarse the memory of what tensor
/// cores use, whose rows are longer.
template <class T, class S>
__device__ T (*sums_tile(Tiles<S>& tiles))[kPitch<T>] {
  if constexpr (std::is_same_v<S, T>) {
    return tiles.a;
  } else {
    return reinterpret_cast<T(*)[kPitch<T>]>(products_tile());
  }
}

/// Through the products of all tiles. A warp's features of a quadratic tile have one entry a in common, whose
/// gradients it adds by itself; those of the entries b are kept in registers over all tiles beside them.
template <bool kDrops, class T, class S>
__device__ void differentiate_features(const Differentiated<T>& at, FeatureTiles<T, S>& shared,
                                       const EntryGradients<T>& to) {
  const Factorised<T>& in = at.in;
  for (int64_t t = 0; t < in.linear_tiles; ++t) {
    const FeatureTile<T> tile(in, t);
    const ThreadTile<T> gradients = feature_gradients<kDrops>(at, shared, tile);
#pragma unroll
    for (int r = 0; r < kPart<T>; ++r) {
#pragma unroll
      for (int c = 0; c < kPart<T>; ++c) {
        const int64_t row = tile.b + part_row<T>() + r;
        if (row < in.width) to.at(row, part_column<T>() + c) = gradients.of[r][c];
      }
    }
  }
  __syncthreads();  // others add to what was written here
  ThreadTile<T> sums;
  for (int64_t t = in.linear_tiles; t < in.tiles; ++t) {
    const FeatureTile<T> tile(in, t);
    const ThreadTile<T> gradients = feature_gradients<kDrops>(at, shared, tile);
    T of_left[kPart<T>] = {};
#pragma unroll
    for (int c = 0; c < kPart<T>; ++c) {
      const int n = part_column<T>() + c;
      const T left = tile.left(at.x, part_row<T>(), n);
#pragma unroll
      for (int r = 0; r < kPart<T>; ++r) {
        of_left[c] += gradients.of[r][c] * tile.right(at.x, part_row<T>() + r, n);
        sums.of[r][c] += gradients.of[r][c] * left;
      }
      of_left[c] += shuffle(of_left[c], kSide);  // the other half of the warp has the other entries b
    }
    const int64_t left_row = tile.a + part_row<T>() / kRight<T>;
    if (threadIdx.x % kWarp < kSide && left_row < in.width) to.add(left_row, part_column<T>(), of_left);
    if (!tile.is_last_beside()) continue;

    __syncthreads();  // the features there have been used
    T(*const of_block)[kPitch<T>] = sums_tile<T>(shared);
    store(of_block, sums);
    sums = ThreadTile<T>();
    __syncthreads();
    for (int e = static_cast<int>(threadIdx.x); e < kRight<T> * kTile<T>; e += kThreads) {
      const int r = e / kTile<T>, n = e % kTile<T>;
      T sum = 0;
      for (int slot = r; slot < kTile<T>; slot += kRight<T>) sum += of_block[slot][n];
      if (tile.b + r < in.width) to.at(tile.b + r, n) += sum;
    }
    __syncthreads();  // before others add there
  }
}

/// What comes from the tokens of the chunk by the quadratic form:  ∂x_i += Σ_j f'(s_ij) (y_j·y_i + t_j·t_i) x_j
template <bool kDrops, class T, class S>
__device__ void differentiate_scores(const Differentiated<T>& at, FeatureTiles<T, S>& shared, int64_t position,
                                     const EntryGradients<T>& to) {
  const Factorised<T>& in = at.in;
  const T* other_x = at.other.x_at(in, at.head, position);
  const ThreadTile<T> scores = products_of_entries(in, shared, other_x, at.x, in.width);
  ThreadTile<T> gradients = at.cotangents(shared, position);
  // Where weights are made of dropped features, their gradients have gone through these.
  const bool through_features = kDrops && in.drops_features();
#pragma unroll
  for (int c = 0; c < kPart<T>; ++c) {
    const int i = part_column<T>() + c;
    const T factor = kDrops ? at.own.factor_at(in, at.head, at.first + i) : T{1};
#pragma unroll
    for (int r = 0; r < kPart<T>; ++r) {
      const int j = part_row<T>() + r;
      const T t = at.normaliser_cotangent(position, j, i);
      const T kept = kDrops ? factor * at.other.factor_at(in, at.head, position + j) : T{1};
      const T dropped = gradients.of[r][c] + (in.shared_denominator ? t : T{0});
      const T cotangent = (through_features ? T{0} : kept * dropped) + (in.shared_denominator ? T{0} : t);
      gradients.of[r][c] = at.sees(position, j, i) ? (in.a1 + 2 * in.a2 * scores.of[r][c]) * cotangent : T{0};
    }
  }
  __syncthreads();  // what is there has been used
  store(shared.a, gradients);
  for (int64_t row = 0; row < in.width; row += kTile<T>) {
    fill_columns(shared.b, kTile<T>, kTile<T>,
                 [&](int j, int d) { return row + d < in.width ? other_x[(row + d) * in.positions + j] : T{0}; });
    __syncthreads();
    ThreadTile<T> sum;
    add_product(sum, shared.b, shared.a, kTile<T>);
#pragma unroll
    for (int r = 0; r < kPart<T>; ++r) {
      const int64_t d = row + part_row<T>() + r;
      if (d < in.width) to.add(d, part_column<T>(), sum.of[r]);
    }
    __syncthreads();  // before the next rows take the place of these
  }
}

/// A block makes ∂x̃ of a tile of tokens, from the states of its lane and, when causal, from its own chunk as in
/// apply_states. Multiplications bound it, 2·N·M·(D + 1) in all, and 6·N·c·D inside of chunks of c tokens.
template <class T, class S, bool kDrops>
__global__ void __launch_bounds__(kThreads)
    differentiate(Factorised<T> in, Side<T> own, Side<T> other, ChunkGroup chunk_group, const T* states,
                  int64_t state_size, T* gradients) {
  __shared__ FeatureTiles<T, S> shared;
  const int64_t tiles = ceil_div(chunk_group.chunk, kTile<T>);
  for (int64_t index = blockIdx.x; index < chunk_group.count() * tiles; index += gridDim.x) {
    const int64_t lane = index / tiles, head = chunk_group.head_of(lane);
    const int64_t chunk = chunk_group.first_of(lane), end = min(chunk + chunk_group.chunk, chunk_group.end);
    const int64_t first = chunk + index % tiles * kTile<T>;
    if (first >= end) continue;
    const Differentiated<T> at{in,
                               own,
                               other,
                               head,
                               first,
                               own.x_at(in, head, first),
                               own.y_at(in, head, first),
                               states + lane * state_size,
                               chunk_group.reverse};
    const EntryGradients<T> to{gradients + head * in.width * in.positions + first, in.positions};
    if (kDrops && in.causal && in.drops_features()) load_dropped_cotangents(at, shared);
    differentiate_features<kDrops>(at, shared, to);
    if (!in.causal) continue;
    const int64_t until = chunk_group.reverse ? end : min(first + kTile<T>, end);
    for (int64_t position = chunk_group.reverse ? first : chunk; position < until; position += kTile<T>) {
      differentiate_scores<kDrops>(at, shared, position, to);
    }
  }
}

}  // namespace linnet::cuda
