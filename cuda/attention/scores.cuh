#pragma once

#include <linnet/cuda/attention/inputs.cuh>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/random_byte.cuh>

/// The scores of a tile that a thread holds, and which of them count: those whose key the query sees and that dropout
/// keeps.

namespace linnet::cuda {

/// The scores of a thread tile, in the layout of the products of tile.cuh. Each class of scores has these members:
///   kQueries, kKeys        the number of queries and keys that a thread holds
///   kLanes                 the number of neighbouring lanes that hold the keys of one query
///   kWarpKeys              the number of keys of a query that a warp holds, from warp_key() on
///   query(q), key(k)       the index in the tile of the thread's q-th query and k-th key
template <class T>
struct ThreadTileScores {
  static constexpr int kQueries = kThreadTile<T>, kKeys = kThreadTile<T>, kLanes = kSide, kWarpKeys = kTile<T>;
  ThreadTile<T>& tile;

  __device__ static int warp_query() {
    return static_cast<int>(threadIdx.x) / kWarp * (kWarp / kSide) * kThreadTile<T>;
  }
  __device__ static int warp_key() { return 0; }
  __device__ static int query(int q) { return thread_row<T>() + q; }
  __device__ static int key(int k) { return thread_column<T>() + k; }
  __device__ T& at(int q, int k) const { return tile.of[q][k]; }
};

/// A tile of scores: its head, first query and first key. If `whole`, all its queries see all its keys, except
/// padding. A query beyond the last one sees no key, so that sums over queries skip it.
struct TilePosition {
  int64_t head, query, key;
  bool whole;
};

/// Calls `f(q, c)` for each query q and key c of a thread.
template <class Scores, class F>
__device__ void for_each_score(F f) {
#pragma unroll
  for (int q = 0; q < Scores::kQueries; ++q) {
#pragma unroll
    for (int c = 0; c < Scores::kKeys; ++c) f(q, c);
  }
}

/// A set of a thread's scores: bit q·kKeys + c is for its query q and key c.
template <class Scores>
struct ScoreMask {
  static_assert(Scores::kQueries * Scores::kKeys <= 32, "a bit for each score");
  uint32_t bits = ~0u;

  __device__ bool all() const { return bits == ~0u; }
  __device__ bool has(int q, int c) const { return (bits >> (q * Scores::kKeys + c) & 1) != 0; }
  __device__ void clear(int q, int c) { bits &= ~(1u << (q * Scores::kKeys + c)); }
};

// Functions that few calls need are not inlined, so that they do not take registers in all kernels.

/// The keys of a thread that are not padding: bit c is for key c. The tile has `keys` keys.
template <class Scores>
__noinline__ __device__ uint32_t unpadded_keys(const bool* padding_mask, int64_t stride, int keys) {
  uint32_t kept = 0;
#pragma unroll
  for (int c = 0; c < Scores::kKeys; ++c) {
    const int key = Scores::key(c);
    kept |= uint32_t{key < keys && padding_mask[key * stride]} << c;
  }
  return kept;
}

/// Removes from `seen` the pairs that ranges or codes hide.
template <class Scores, class In>
__noinline__ __device__ void clear_outside_ranges(const In& in, const TilePosition& tile, ScoreMask<Scores>& seen) {
#pragma unroll 1
  for (int q = 0; q < Scores::kQueries; ++q) {
    const int64_t i = tile.query + Scores::query(q);
    if (i >= in.queries) continue;
    const KeyRange range = in.visible(tile.head, i);
#pragma unroll 1
    for (int c = 0; c < Scores::kKeys; ++c) {
      const int64_t j = tile.key + Scores::key(c);
      if (!range.has(j) || in.hidden_by_codes(tile.head, i, j)) seen.clear(q, c);
    }
  }
}

/// Sets the entry of query i and key i to `value`, for every i.
template <class In, class Scores, class T>
__device__ void set_self(const In& in, const TilePosition& tile, Scores s, T value) {
  if (!in.has_self_score) return;
  for_each_score<Scores>([&](int q, int c) {
    if (tile.query + Scores::query(q) == tile.key + Scores::key(c)) s.at(q, c) = value;
  });
}

/// The scores whose key is not padding, not after a causal query, and not hidden by ranges or codes.
template <class Scores, class In, class E>
__device__ ScoreMask<Scores> seen_of(const In& in, const HeadMatrix<const E>& k, const TilePosition& tile) {
  using T = typename In::Computed;
  ScoreMask<Scores> seen;
  if (tile.whole && k.padding_mask == nullptr) return seen;
  const auto in_tile = [](int64_t n) { return static_cast<int>(min(max(n, -int64_t{kTile<T>}), int64_t{kTile<T>})); };
  const int queries = in_tile(in.queries - tile.query), keys = in_tile(in.keys - tile.key);
  const int ahead = in.causal ? in_tile(tile.query + in.causal_offset() - tile.key) : kTile<T>;
  uint32_t kept = ~0u;
  if (k.padding_mask != nullptr) {
    kept = unpadded_keys<Scores>(k.padding_mask + tile.key * k.mask_stride, k.mask_stride, keys);
  }
  for_each_score<Scores>([&](int q, int c) {
    const int query = Scores::query(q), key = Scores::key(c);
    const bool sees = query < queries && key < keys && key <= query + ahead && (kept >> c & 1) != 0;
    if (!sees) seen.clear(q, c);
  });
  if constexpr (In::kSparse) clear_outside_ranges(in, tile, seen);
  return seen;
}

/// The weights that dropout keeps. Its stream has one word for each weight, `keys` for each query. The words of the
/// tile begin at element `first`. Each lane draws words for as many neighbouring keys as it holds scores, and the
/// lanes then exchange the bits, so that hardly any Philox block is computed twice. All lanes of the warp must call
/// it.
template <class Scores>
__noinline__ __device__ ScoreMask<Scores> kept_weights(RandomKey key, uint64_t threshold, uint64_t first,
                                                       uint64_t keys) {
  constexpr int kDrawn = Scores::kQueries * Scores::kKeys, kLanesOfQuery = Scores::kWarpKeys / kDrawn;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int own_query = Scores::warp_query() + lane / kLanesOfQuery;
  const int own_key = Scores::warp_key() + lane % kLanesOfQuery * kDrawn;
  const uint64_t begin = first + static_cast<uint64_t>(own_query) * keys + static_cast<uint64_t>(own_key);
  uint32_t drawn = 0;
#pragma unroll 1
  for (uint64_t number = begin / 4; number * 4 < begin + kDrawn; ++number) {
    const PhiloxBlock words = philox(key, number);
#pragma unroll
    for (uint64_t w = 0; w < 4; ++w) {
      const uint64_t i = number * 4 + w - begin;  // wraps to a huge number for words before the first
      if (i < kDrawn) drawn |= uint32_t{words.word[w] < threshold} << i;
    }
  }
  ScoreMask<Scores> kept{0};
#pragma unroll 1
  for (int q = 0; q < Scores::kQueries; ++q) {
    uint64_t of_query = 0;
#pragma unroll
    for (int l = 0; l < kLanesOfQuery; ++l) {
      const int from = (Scores::query(q) - Scores::warp_query()) * kLanesOfQuery + l;
      of_query |= uint64_t{value_of(drawn, from)} << (l * kDrawn);
    }
#pragma unroll
    for (int c = 0; c < Scores::kKeys; ++c) {
      kept.bits |= static_cast<uint32_t>(of_query >> (Scores::key(c) - Scores::warp_key()) & 1)
                   << (q * Scores::kKeys + c);
    }
  }
  return kept;
}

/// The pairs that dropout of tokens keeps. The random bytes of the tile begin at `query` and at `key`.
template <class Scores>
__noinline__ __device__ ScoreMask<Scores> kept_tokens(RandomKey q_rng, RandomKey k_rng, int keep_of_256,
                                                      int64_t query, int64_t key) {
  uint32_t keys = 0;
#pragma unroll 1
  for (int c = 0; c < Scores::kKeys; ++c) {
    keys |= uint32_t{random_byte(k_rng, key + Scores::key(c)) < keep_of_256} << c;
  }
  ScoreMask<Scores> kept{0};
#pragma unroll 1
  for (int q = 0; q < Scores::kQueries; ++q) {
    if (random_byte(q_rng, query + Scores::query(q)) < keep_of_256) kept.bits |= keys << (q * Scores::kKeys);
  }
  return kept;
}

template <class Scores, class T, class E>
__device__ ScoreMask<Scores> kept_tokens_of(const QuadraticInputs<T, E>& in, const TilePosition& tile) {
  if (!in.drops_tokens()) return {};
  return kept_tokens<Scores>(in.q_rng, in.k_rng, in.keep_of_256, in.token(tile.head, tile.query + in.causal_offset()),
                             in.token(tile.head, tile.key));
}
template <class Scores, class T, class E>
__device__ ScoreMask<Scores> kept_weights_of(const QuadraticInputs<T, E>& in, const TilePosition& tile) {
  if (!in.drops) return {};
  const int64_t first = (tile.head * in.queries + tile.query) * in.keys + tile.key;
  return kept_weights<Scores>(in.dropout_rng, in.threshold, static_cast<uint64_t>(first),
                              static_cast<uint64_t>(in.keys));
}

/// Multiplies weights by 1 / (1 − rate) where dropout keeps them, and by 0 elsewhere.
template <class T, class E, class Scores>
__device__ void drop(const QuadraticInputs<T, E>& in, ScoreMask<Scores> kept, Scores s) {
  if (!in.drops) return;
  for_each_score<Scores>([&](int q, int c) { s.at(q, c) *= kept.has(q, c) ? in.weight_factor : T{0}; });
}

/// Sets the scores of keys that are not seen to `value`.
template <class Scores, class T>
__device__ void hide(ScoreMask<Scores> seen, Scores s, T value) {
  if (seen.all()) return;
  for_each_score<Scores>([&](int q, int c) {
    if (!seen.has(q, c)) s.at(q, c) = value;
  });
}

}  // namespace linnet::cuda
