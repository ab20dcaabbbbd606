#pragma once

#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/fastmax/states.cuh>

/// What the sums over one side give the tokens of the other: [F_n, g_n] = (w∘S)ᵀ φ(x_n).

namespace linnet::cuda {

/// Where it goes. With a normaliser g [heads, tokens], o_n = F_n / g_n, and otherwise F_n itself, 0 for padding.
template <class T, class E>
struct Applied {
  Heads<E> out;
  int64_t heads;  ///< of a sequence
  T* denominator;
};

/// A tile of tokens, and what a block makes of it: a panel of columns, and the denominators, each thread a share.
template <class T, int kColumns>
struct Application {
  const Factorised<T>& in;
  const Side<T>& own;
  const Side<T>& other;
  int64_t head, first, column;
  const T *x, *state;
  bool reverse;
  ThreadTile<T, kColumns> sum = {};
  T total[kPart<T>] = {};
};

/// Adds the products of features and states, and to `dropped` those of the features of both sides, when causal
/// weights are made of dropped ones; a chunk is one tile then.
template <bool kDrops, class T, class S, int kColumns>
__device__ void apply_features(Application<T, kColumns>& at, FeatureTiles<T, S>& shared, ThreadTile<T>& dropped) {
  const Factorised<T>& in = at.in;
  for (int64_t t = 0; t < in.tiles; ++t) {
    const FeatureTile<T> tile(in, t);
    const auto stays = [&](int slot, int n) { return !kDrops || shared.mask.stays(tile, slot, n); };
    __syncthreads();  // the last tiles have been used
    if constexpr (kDrops) {
      shared.mask.draw(tile, at.own.key, at.head, at.first);
      __syncthreads();
    }
    fill(shared.a, kTile<T>, kTile<T>,
         [&](int slot, int n) { return stays(slot, n) ? tile.feature(at.x, slot, n) : T{0}; });
    fill(shared.b, kTile<T>, kSide * kColumns, [&](int slot, int c) {
      const int64_t d = at.column + c;
      return d < in.width ? at.state[tile.row(slot) * in.rows() + d] * tile.dropped_weight(slot) : T{0};
    });
    __syncthreads();
    add_product(at.sum, shared.a, shared.b, kTile<T>);
    for (int slot = static_cast<int>(threadIdx.x) % kSide; slot < kTile<T>; slot += kSide) {
      const T weight = in.shared_denominator ? tile.dropped_weight(slot) : tile.weight(slot);
      const T z = at.state[tile.row(slot) * in.rows() + in.width] * weight;
#pragma unroll
      for (int r = 0; r < kPart<T>; ++r) {
        const int n = part_row<T>() + r;
        if (!in.shared_denominator || stays(slot, n)) at.total[r] += tile.feature(at.x, slot, n) * z;
      }
    }
    if (!kDrops || !in.causal || !in.drops_features()) continue;
    const T* other_x = at.other.x_at(in, at.head, at.first);
    __syncthreads();
    shared.mask.draw(tile, at.other.key, at.head, at.first);
    __syncthreads();
    fill(shared.b, kTile<T>, kTile<T>, [&](int slot, int n) {
      return stays(slot, n) ? tile.feature(other_x, slot, n) * tile.dropped_weight(slot) : T{0};
    });
    __syncthreads();
    add_product(dropped, shared.a, shared.b, kTile<T>);
  }
}

/// Adds what comes from the tile of the other side at `position` by the quadratic form: f(x_i·x_j) ỹ_j.
template <bool kDrops, class T, class S, int kColumns>
__device__ void apply_scores(Application<T, kColumns>& at, FeatureTiles<T, S>& shared, const ThreadTile<T>& dropped,
                             int64_t position) {
  const Factorised<T>& in = at.in;
  const bool diagonal = position == at.first;
  const auto sees = [&](int j, int i) { return !diagonal || (at.reverse ? j >= i : j <= i); };
  const T* y = at.other.y_at(in, at.head, position);
  const T* t = y + in.width * in.positions;
  const ThreadTile<T> s = products_of_entries(in, shared, at.x, at.other.x_at(in, at.head, position), in.width);
  __syncthreads();  // what is there has been used
#pragma unroll
  for (int c = 0; c < kPart<T>; ++c) {
    const int j = part_column<T>() + c;
#pragma unroll
    for (int r = 0; r < kPart<T>; ++r) {
      const int i = part_row<T>() + r;
      const T rest = s.of[r][c] * (in.a1 + s.of[r][c] * in.a2), clean = in.a0 + rest;
      T weight = clean;
      if constexpr (kDrops) {
        const T kept = at.own.factor_at(in, at.head, at.first + i) * at.other.factor_at(in, at.head, position + j);
        weight = in.drops_features() ? dropped.of[r][c] : in.a0 + rest * kept;
      }
      shared.a[j][i] = sees(j, i) ? weight : T{0};
      if (sees(j, i)) at.total[r] += (in.shared_denominator ? weight : clean) * t[j];
    }
  }
  fill_columns(shared.b, kTile<T>, kSide * kColumns,
               [&](int n, int c) { return at.column + c < in.width ? y[(at.column + c) * in.positions + n] : T{0}; });
  __syncthreads();
  if (diagonal) {  // what a token does not see is not read for it: not even an infinity comes from the future
    add_product(at.sum, shared.a, shared.b, kTile<T>, [&](int j, int r) { return sees(j, part_row<T>() + r); });
  } else {
    add_product(at.sum, shared.a, shared.b, kTile<T>);
  }
}

template <class T, class E, int kColumns>
__device__ void store(const Application<T, kColumns>& at, const Applied<T, E>& to) {
  const Factorised<T>& in = at.in;
#pragma unroll
  for (int r = 0; r < kPart<T>; ++r) {
    const int n = part_row<T>() + r;
    const int64_t token = at.first + n - at.own.shift;
    const T g = reduce_lanes<kSide>(at.total[r], Plus());
    if (token < 0 || token >= at.own.count) continue;
    const bool divides = to.denominator != nullptr;
    const T factor = !divides ? at.x[in.width * in.positions + n] : g == 0 ? T{0} : 1 / g;
    E* row = to.out.at(at.head / to.heads, at.head % to.heads, token);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int64_t d = at.column + part_column<T, kColumns>() + c;
      if (d < in.width) row[d] = factor == 0 ? T{0} : at.sum.of[r][c] * factor;
    }
    if (divides && at.column == 0 && part_column<T>() == 0) to.denominator[at.head * at.own.count + token] = g;
  }
}

/// A block makes a tile of tokens and a panel of columns, from the states of its lane and, when causal, from the
/// tokens of its own chunk: the keys up to a query, or in reverse the queries from a key on. Multiplications bound
/// it, 2·N·M·(D + 1) in all, and 2·N·c·D inside of chunks of c tokens.
template <class T, class S, class E, int kColumns, bool kDrops>
__global__ void __launch_bounds__(kThreads)
    apply_states(Factorised<T> in, Side<T> own, Side<T> other, ChunkGroup chunk_group, const T* states,
                 int64_t state_size, int64_t panels, Applied<T, E> to) {
  __shared__ FeatureTiles<T, S> shared;
  const int64_t tiles = ceil_div(chunk_group.chunk, kTile<T>);
  for (int64_t index = blockIdx.x; index < chunk_group.count() * tiles * panels; index += gridDim.x) {
    const int64_t lane = index / panels / tiles, head = chunk_group.head_of(lane);
    const int64_t chunk = chunk_group.first_of(lane), end = min(chunk + chunk_group.chunk, chunk_group.end);
    const int64_t first = chunk + index / panels % tiles * kTile<T>;
    if (first >= end) continue;
    Application<T, kColumns> at{in,
                                own,
                                other,
                                head,
                                first,
                                index % panels * kSide * kColumns,
                                own.x_at(in, head, first),
                                states + lane * state_size,
                                chunk_group.reverse};
    ThreadTile<T> dropped;
    apply_features<kDrops>(at, shared, dropped);
    if (in.causal) {
      const int64_t until = chunk_group.reverse ? end : min(first + kTile<T>, end);
      for (int64_t position = chunk_group.reverse ? first : chunk; position < until; position += kTile<T>) {
        apply_scores<kDrops>(at, shared, dropped, position);
      }
    }
    store(at, to);
  }
}

}  // namespace linnet::cuda
