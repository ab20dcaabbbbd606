#pragma once

#include <linnet/cuda/fastmax_states.cuh>
#include <linnet/cuda/heads.cuh>

/// What the sums over one side give the tokens of the other: [F_n, g_n] = (w∘S)ᵀ φ(x_n).

namespace linnet::cuda {

/// Where it goes. With a normaliser g [heads, tokens], o_n = F_n / g_n, and otherwise F_n itself, 0 for padding.
template <class T>
struct Applied {
  Heads<T> out;
  int64_t heads;  ///< of a sequence
  T* normaliser;
};

/// Turns the products x_i·x_j of a part, for tokens i of the one side and j of the other, into weights, with the
/// dropped ones in place where weights are made of dropped features; adds them up for the denominators; 0 where i
/// does not see j.
template <class T, bool kDrops, class Sees>
__device__ void weigh(const Factorised<T>& in, const Side<T>& own, const Side<T>& other, int64_t head, int64_t first,
                      int64_t other_first, const Part<T>& dropped, Part<T>& s, T* total, Sees sees) {
  const T* t = other.y_at(in, head, other_first) + in.width * in.positions;
#pragma unroll
  for (int c = 0; c < kPart<T>; ++c) {
    const int j = part_column<T>() + c;
#pragma unroll
    for (int r = 0; r < kPart<T>; ++r) {
      const int i = part_row<T>() + r;
      const T rest = s.of[r][c] * (in.a1 + s.of[r][c] * in.a2), clean = in.a0 + rest;
      T weight = clean;
      if constexpr (kDrops) {
        weight =
            in.drops_features()
                ? dropped.of[r][c]
                : in.a0 + rest * (own.factor_at(in, head, first + i) * other.factor_at(in, head, other_first + j));
      }
      s.of[r][c] = sees(j, i) ? weight : T{0};
      if (sees(j, i)) total[r] += (in.shared_normaliser ? weight : clean) * t[j];
    }
  }
}

/// A block makes a tile of tokens and a panel of columns, from the states of its lane and, when causal, from the
/// tokens of its own chunk by the quadratic form: the keys up to a query, or in reverse the queries from a key on.
/// Multiplications bound it, 2·N·M·(D + 1) in all, and 2·N·c·D inside of chunks of c tokens.
template <class T, int kColumns, bool kDrops>
__global__ void __launch_bounds__(kThreads)
    apply_states(Factorised<T> in, Side<T> own, Side<T> other, Lanes lanes, const T* states, int64_t state_size,
                 int64_t panels, Applied<T> to) {
  __shared__ FeatureTiles<T> shared;
  constexpr int kPanel = kSide * kColumns;
  const int64_t tiles = ceil_div(lanes.chunk, kTile<T>);
  for (int64_t index = blockIdx.x; index < lanes.count() * tiles * panels; index += gridDim.x) {
    const int64_t lane = index / panels / tiles, head = lanes.head_of(lane), column = index % panels * kPanel;
    const int64_t chunk = lanes.first_of(lane), end = min(chunk + lanes.chunk, lanes.end);
    const int64_t first = chunk + index / panels % tiles * kTile<T>;
    if (first >= end) continue;
    const T* x = own.x_at(in, head, first);
    const T* state = states + lane * state_size;
    const bool drops_weights = kDrops && in.causal && in.drops_features();
    Part<T, kColumns> sum;
    Part<T> dropped;
    T total[kPart<T>] = {};

    for (int64_t t = 0; t < in.tiles; ++t) {
      const FeatureTile<T> tile(in, t);
      __syncthreads();  // the last tiles have been used
      if constexpr (kDrops) {
        shared.mask.draw(tile, own.key, head, first);
        __syncthreads();
      }
      const auto stays = [&](int slot, int n) { return !kDrops || shared.mask.stays(tile, slot, n); };
      fill(shared.a, kTile<T>, kTile<T>,
           [&](int slot, int n) { return stays(slot, n) ? tile.feature(x, slot, n) : T{0}; });
      fill(shared.b, kTile<T>, kPanel, [&](int slot, int c) {
        return column + c < in.width ? state[tile.row(slot) * in.rows() + column + c] * tile.dropped_weight(slot)
                                     : T{0};
      });
      __syncthreads();
      add_product(sum, shared.a, shared.b, kTile<T>);
      for (int slot = static_cast<int>(threadIdx.x) % kSide; slot < kTile<T>; slot += kSide) {
        const T z = state[tile.row(slot) * in.rows() + in.width] *
                    (in.shared_normaliser ? tile.dropped_weight(slot) : tile.weight(slot));
#pragma unroll
        for (int r = 0; r < kPart<T>; ++r) {
          const int n = part_row<T>() + r;
          if (!in.shared_normaliser || stays(slot, n)) total[r] += tile.feature(x, slot, n) * z;
        }
      }
      if (!drops_weights) continue;
      const T* other_x = other.x_at(in, head, first);  // a chunk is one tile here
      __syncthreads();
      shared.mask.draw(tile, other.key, head, first);
      __syncthreads();
      fill(shared.b, kTile<T>, kTile<T>, [&](int slot, int n) {
        return stays(slot, n) ? tile.feature(other_x, slot, n) * tile.dropped_weight(slot) : T{0};
      });
      __syncthreads();
      add_product(dropped, shared.a, shared.b, kTile<T>);
    }

    const int64_t from = !in.causal ? end : lanes.reverse ? first : chunk;
    const int64_t until = lanes.reverse ? end : min(first + kTile<T>, end);
    for (int64_t position = from; position < until; position += kTile<T>) {
      const bool reverse = lanes.reverse, diagonal = position == first;
      const auto sees = [=](int j, int i) { return !diagonal || (reverse ? j >= i : j <= i); };
      Part<T> weights = products_of_entries(in, shared, x, other.x_at(in, head, position), in.width);
      weigh<T, kDrops>(in, own, other, head, first, position, dropped, weights, total, sees);
      const T* y = other.y_at(in, head, position);
      __syncthreads();  // before these take the places of features, where there are no entries to multiply
#pragma unroll
      for (int r = 0; r < kPart<T>; ++r) {
#pragma unroll
        for (int c = 0; c < kPart<T>; ++c) shared.a[part_column<T>() + c][part_row<T>() + r] = weights.of[r][c];
      }
      fill_columns(shared.b, kTile<T>, kPanel,
                   [&](int n, int c) { return column + c < in.width ? y[(column + c) * in.positions + n] : T{0}; });
      __syncthreads();
      if (diagonal) {  // what a token does not see is not read for it: not even an infinity comes from the future
        add_product(sum, shared.a, shared.b, kTile<T>, [&](int j, int r) { return sees(j, part_row<T>() + r); });
      } else {
        add_product(sum, shared.a, shared.b, kTile<T>);
      }
    }

#pragma unroll
    for (int r = 0; r < kPart<T>; ++r) {
      const int n = part_row<T>() + r;
      const int64_t token = first + n - own.shift;
      const T g = fold_lanes<kSide>(total[r], Plus());
      if (token < 0 || token >= own.count) continue;
      const T factor = to.normaliser == nullptr ? x[in.width * in.positions + n] : g == 0 ? T{0} : 1 / g;
      T* row = to.out.at(head / to.heads, head % to.heads, token);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        const int64_t d = column + part_column<T, kColumns>() + c;
        if (d < in.width) row[d] = factor == 0 ? T{0} : sum.of[r][c] * factor;
      }
      if (to.normaliser == nullptr || column > 0 || part_column<T>() > 0) continue;
      to.normaliser[head * own.count + token] = g;
    }
  }
}

}  // namespace linnet::cuda
