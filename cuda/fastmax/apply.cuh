#pragma once

#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/fastmax/states.cuh>

/// The results of one side's tokens from the states of the other: [F_n, g_n] = (w∘S)ᵀ φ(x_n), o_n = F_n / g_n.

namespace linnet::cuda {

/// The memory for results. With `denominator` [heads, tokens], they are o_n = F_n / g_n and g_n. Without, they are
/// F_n, and 0 for padding.
template <class T, class E>
struct TokenOutput {
  HeadsView<E> out;
  int64_t heads;  ///< heads of a sequence
  T* denominator;
};

/// The task of a block: a tile of tokens and a tile of columns, and the tokens' denominators, of which each thread
/// sums some terms.
template <class T, int kColumns>
struct ApplyTask {
  const FactorisedParams<T>& in;
  const LoadedSide<T>& own;
  const LoadedSide<T>& other;
  int64_t head, first, column;
  const T *x, *state;
  bool reverse;
  ThreadTile<T, kColumns> sum = {};
  T total[kThreadTile<T>] = {};
};

/// Inter-chunk: sum += (w∘S)ᵀ φ(x), tile by tile of the features. If intra-chunk weights are sums of dropped
/// features, a chunk is one tile, and this adds those weights, φ(x)ᵀ w φ(y), to `dropped`.
template <bool kDrops, class T, class S, int kColumns>
__device__ void apply_features(ApplyTask<T, kColumns>& at, SharedFeatureTiles<T, S>& shared, ThreadTile<T>& dropped) {
  const FactorisedParams<T>& in = at.in;
  for (int64_t t = 0; t < in.tiles; ++t) {
    const FeatureTile<T> tile(in, t);
    const auto keeps = [&](int slot, int n) { return !kDrops || shared.mask.keeps(tile, slot, n); };
    __syncthreads();  // the previous tiles have been used
    if constexpr (kDrops) {
      shared.mask.draw(tile, at.own.key, at.head, at.first);
      __syncthreads();
    }
    fill(shared.a, kTile<T>, kTile<T>,
         [&](int slot, int n) { return keeps(slot, n) ? tile.feature(at.x, slot, n) : T{0}; });
    fill(shared.b, kTile<T>, kSide * kColumns, [&](int slot, int c) {
      const int64_t d = at.column + c;
      return d < in.width ? at.state[tile.row(slot) * in.entries() + d] * tile.dropped_weight(slot) : T{0};
    });
    __syncthreads();
    add_product(at.sum, shared.a, shared.b, kTile<T>);  // [FAST eq.26], causal [FAST eq.32]
    for (int slot = static_cast<int>(threadIdx.x) % kSide; slot < kTile<T>; slot += kSide) {
      const T weight = in.shared_denominator ? tile.dropped_weight(slot) : tile.weight(slot);
      const T z = at.state[tile.row(slot) * in.entries() + in.width] * weight;
#pragma unroll
      for (int r = 0; r < kThreadTile<T>; ++r) {
        const int n = thread_row<T>() + r;
        if (!in.shared_denominator || keeps(slot, n))
          at.total[r] += tile.feature(at.x, slot, n) * z;  // [FAST eq.27], causal [FAST eq.33]
      }
    }
    if (!kDrops || !in.causal || !in.drops_features()) continue;
    const T* other_x = at.other.x_at(in, at.head, at.first);
    __syncthreads();
    shared.mask.draw(tile, at.other.key, at.head, at.first);
    __syncthreads();
    fill(shared.b, kTile<T>, kTile<T>, [&](int slot, int n) {
      return keeps(slot, n) ? tile.feature(other_x, slot, n) * tile.dropped_weight(slot) : T{0};
    });
    __syncthreads();
    add_product(dropped, shared.a, shared.b, kTile<T>);
  }
}

/// Intra-chunk: sum += f(x_i·x_j) ỹ_j over the tile of the other side at `position`.
template <bool kDrops, class T, class S, int kColumns>
__device__ void apply_scores(ApplyTask<T, kColumns>& at, SharedFeatureTiles<T, S>& shared,
                             const ThreadTile<T>& dropped, int64_t position) {
  const FactorisedParams<T>& in = at.in;
  const bool diagonal = position == at.first;
  const auto sees = [&](int j, int i) { return !diagonal || (at.reverse ? j >= i : j <= i); };
  const T* y = at.other.y_at(in, at.head, position);
  const T* t = y + in.width * in.positions;
  const ThreadTile<T> s = products_of_entries(in, shared, at.x, at.other.x_at(in, at.head, position), in.width);
  __syncthreads();  // the tiles have been used
#pragma unroll
  for (int c = 0; c < kThreadTile<T>; ++c) {
    const int j = thread_column<T>() + c;
#pragma unroll
    for (int r = 0; r < kThreadTile<T>; ++r) {
      const int i = thread_row<T>() + r;
      const T rest = s.of[r][c] * (in.a1 + s.of[r][c] * in.a2), undropped = in.a0 + rest;  // [FAST eq.8]
      T weight = undropped;
      if constexpr (kDrops) {
        const T kept = at.own.factor_at(in, at.head, at.first + i) * at.other.factor_at(in, at.head, position + j);
        weight = in.drops_features() ? dropped.of[r][c] : in.a0 + rest * kept;
      }
      shared.a[j][i] = sees(j, i) ? weight : T{0};
      if (sees(j, i)) at.total[r] += (in.shared_denominator ? weight : undropped) * t[j];  // [FAST eq.31]
    }
  }
  fill_columns(shared.b, kTile<T>, kSide * kColumns,
               [&](int n, int c) { return at.column + c < in.width ? y[(at.column + c) * in.positions + n] : T{0}; });
  __syncthreads();
  if (diagonal) {  // a token that another does not see must not reach it, even if it is infinite
    add_product(at.sum, shared.a, shared.b, kTile<T>, [&](int j, int r) { return sees(j, thread_row<T>() + r); });
  } else {
    add_product(at.sum, shared.a, shared.b, kTile<T>);  // [FAST eq.30]
  }
}

/// Writes F or F / g, and g.
template <class T, class E, int kColumns>
__device__ void store(const ApplyTask<T, kColumns>& at, const TokenOutput<T, E>& to) {
  const FactorisedParams<T>& in = at.in;
#pragma unroll
  for (int r = 0; r < kThreadTile<T>; ++r) {
    const int n = thread_row<T>() + r;
    const int64_t token = at.first + n - at.own.shift;
    const T g = reduce_lanes<kSide>(at.total[r], Plus());
    if (token < 0 || token >= at.own.count) continue;
    const bool divides = to.denominator != nullptr;
    const T factor = !divides ? at.x[in.width * in.positions + n] : g == 0 ? T{0} : 1 / g;
    E* row = to.out.at(at.head / to.heads, at.head % to.heads, token);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int64_t d = at.column + thread_column<T, kColumns>() + c;
      if (d < in.width) row[d] = factor == 0 ? T{0} : at.sum.of[r][c] * factor;  // [FAST eq.19]
    }
    if (divides && at.column == 0 && thread_column<T>() == 0) to.denominator[at.head * at.own.count + token] = g;
  }
}

/// A block computes a tile of tokens and a tile of columns, from the state before its chunk and, when causal, from
/// the tokens of the chunk itself: the keys up to a query, or in reverse the queries from a key on. Multiplications
/// bound it: 2·N·M·(D + 1) in all, and 2·N·c·D inside chunks of c tokens.
template <class T, class S, class E, int kColumns, bool kDrops>
__global__ void __launch_bounds__(kThreads)
    apply_states(FactorisedParams<T> in, LoadedSide<T> own, LoadedSide<T> other, ChunkGroup chunk_group,
                 const T* states, int64_t state_size, int64_t column_tiles, TokenOutput<T, E> to) {
  __shared__ SharedFeatureTiles<T, S> shared;
  const int64_t tiles = ceil_div(chunk_group.chunk_size, kTile<T>);
  for (int64_t index = blockIdx.x; index < chunk_group.count() * tiles * column_tiles; index += gridDim.x) {
    const int64_t state_index = index / column_tiles / tiles, head = chunk_group.head_of(state_index);
    const int64_t begin = chunk_group.first_of(state_index),
                  end = min(begin + chunk_group.chunk_size, chunk_group.end);
    const int64_t first = begin + index / column_tiles % tiles * kTile<T>;
    if (first >= end || !own.has_any(first, kTile<T>)) continue;
    ApplyTask<T, kColumns> at{in,
                              own,
                              other,
                              head,
                              first,
                              index % column_tiles * kSide * kColumns,
                              own.x_at(in, head, first),
                              states + state_index * state_size,
                              chunk_group.reverse};
    ThreadTile<T> dropped;
    apply_features<kDrops>(at, shared, dropped);
    if (in.causal) {
      const int64_t until = chunk_group.reverse ? end : min(first + kTile<T>, end);
      for (int64_t position = chunk_group.reverse ? first : begin; position < until; position += kTile<T>) {
        apply_scores<kDrops>(at, shared, dropped, position);
      }
    }
    store(at, to);
  }
}

}  // namespace linnet::cuda
