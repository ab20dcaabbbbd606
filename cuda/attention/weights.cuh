#pragma once

#include <linnet/cuda/attention/first_queries.cuh>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/head_rows.cuh>
#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/math.cuh>
#include <linnet/cuda/device/random_byte.cuh>
#include <linnet/cuda/device/recording.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/device/tile.cuh>

/// From scores to weights and their gradients, for the scores of a tile that one thread holds. Shared by all kernels
/// of attention.cu and fastmax_mma.cu.

namespace linnet::cuda {

/// e^s = 2^(s·log2 e), because exp2 costs half of what exp does.
constexpr double kLog2E = 1.4426950408889634;

/// The arguments of all kernels of quadratic attention. Elements are of type E, computed in T.
template <class T, class E>
struct QuadraticInputs {
  HeadsView<const E> q, k, v;
  PaddingMask padding_mask;
  int64_t batch, heads, queries, keys, width;
  T scale, a0, a1, a2;
  T binary_scale;                 ///< scale · log2 e
  T weight_factor, token_factor;  ///< scale of a weight that dropout keeps; of a pair of tokens that it keeps
  bool softmax, causal, drops;
  uint64_t threshold;
  int keep_of_256;
  bool shared_denominator;
  LiveKey dropout_rng, q_rng, k_rng;
  FirstQuery first_query;

  QuadraticInputs(const View& q_view, const View& k_view, const View& v_view, const View* mask_view,
                  const AttentionParams& params, const FirstQueries& first_queries)
      : q(q_view),
        k(k_view),
        v(v_view),
        padding_mask(mask_view),
        batch(q_view.shape[0]),
        heads(q_view.shape[1]),
        queries(q_view.shape[2]),
        keys(k_view.shape[2]),
        width(q_view.shape[3]),
        scale(static_cast<T>(params.scale)),
        a0(static_cast<T>(params.kind.a0)),
        a1(static_cast<T>(params.kind.a1)),
        a2(static_cast<T>(params.kind.a2)),
        binary_scale(static_cast<T>(params.scale * kLog2E)),
        weight_factor(static_cast<T>(1 / (1 - params.dropout))),
        token_factor(1),
        softmax(params.kind.softmax),
        causal(params.causal),
        drops(params.dropout > 0),
        threshold(keep_threshold(1 - params.dropout)),
        keep_of_256(params.tokens.keep_of_256),
        shared_denominator(params.tokens.shared_denominator),
        dropout_rng(params.dropout_rng),
        q_rng(params.tokens.q_rng),
        k_rng(params.tokens.k_rng),
        first_query(first_queries.of()) {
    if (drops_tokens()) token_factor = static_cast<T>(256.0 / keep_of_256) * static_cast<T>(256.0 / keep_of_256);
  }

  __host__ __device__ int64_t query_tiles() const { return ceil_div(queries, kTile<T>); }
  __host__ __device__ int64_t key_tiles() const { return ceil_div(keys, kTile<T>); }

  /// Whether whole queries and keys are dropped.
  __host__ __device__ bool drops_tokens() const { return !softmax && keep_of_256 % 256 != 0; }
  /// The index of a token's random byte, which is the same as in the factorised form. `position` counts as keys do.
  __device__ int64_t token(int64_t head, int64_t position) const {
    const int64_t first = min(causal_offset(), int64_t{0}), positions = max(keys, queries + causal_offset()) - first;
    return head * (ceil_div(positions, 64) * 64) + position - first;
  }
  /// The position of the first query, counted as keys are.
  __device__ int64_t causal_offset() const { return causal ? keys - queries : 0; }

  /// Query `i` sees the keys before this one, except padding.
  __device__ int64_t visible(int64_t i) const {
    if (i >= queries) return 0;
    return causal ? min(max(i + 1 + keys - queries, int64_t{0}), keys) : keys;
  }
  __device__ int64_t visible_to_tile(int64_t first) const { return visible(min(first + kTile<T>, queries) - 1); }
};

/// The number of tiles of columns, for each of which a block computes a tile of the result; 1 without columns.
template <class T>
int64_t column_tiles_of(int64_t width) {
  return std::max(ceil_div(width, kTile<T>), int64_t{1});
}

/// The task of a block: a tile of rows and a tile of columns of one head.
template <class T, class E>
struct QuadraticTask {
  int64_t head, b, h, first, column;

  __device__ QuadraticTask(const QuadraticInputs<T, E>& in, int64_t index, int64_t tiles, int64_t column_tiles)
      : head(index / column_tiles / tiles),
        b(head / in.heads),
        h(head % in.heads),
        first(index / column_tiles % tiles * kTile<T>),
        column(index % column_tiles * kTile<T>) {}

  template <class U>
  __device__ HeadMatrix<U> rows(const HeadsView<U>& x, int64_t count, int64_t width) const {
    return {x.at(b, h, 0), x.row_stride, 0, count, width, nullptr, 0};
  }
  __device__ HeadMatrix<const E> queries(const QuadraticInputs<T, E>& in, const HeadsView<const E>& x) const {
    HeadMatrix<const E> result = rows(x, in.queries, in.width);
    result.begin = in.first_query.of(b);
    return result;
  }
  __device__ HeadMatrix<const E> keys(const QuadraticInputs<T, E>& in, const HeadsView<const E>& x) const {
    HeadMatrix<const E> result = rows(x, in.keys, in.width);
    if (in.padding_mask.data != nullptr) {
      result.padding_mask = in.padding_mask.data + b * in.padding_mask.batch_stride;
      result.mask_stride = in.padding_mask.stride;
    }
    return result;
  }
};

// ---- Scores ----

/// The scores of a thread tile, as the products of tile.cuh leave them. Such a class says, of a tile of scores:
///   kQueries, kKeys        how many queries and keys a thread holds
///   kLanes                 how many neighbouring lanes hold the keys of one query
///   kWarpKeys              how many keys of a query a warp holds, from warp_key() on
///   query(q), key(k)       the places in the tile of the thread's q-th query and k-th key
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

/// A tile of scores: its head, first query and first key. `whole` says that all its queries see all its keys, except
/// padding. A query behind the last one sees no key, so that sums over queries skip it.
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

/// A set of a thread's scores: bit q·kKeys + c stands for its query q and key c.
template <class Scores>
struct ScoreMask {
  static_assert(Scores::kQueries * Scores::kKeys <= 32, "a bit for each score");
  uint32_t bits = ~0u;

  __device__ bool all() const { return bits == ~0u; }
  __device__ bool has(int q, int c) const { return (bits >> (q * Scores::kKeys + c) & 1) != 0; }
  __device__ void clear(int q, int c) { bits &= ~(1u << (q * Scores::kKeys + c)); }
};

// Functions that few calls need are not inlined, so that kernels keep the registers.

/// The keys of a thread that are not padding: bit c stands for key c. The tile has `keys` keys.
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

/// The scores whose key is neither padding nor in the future of the query.
template <class Scores, class T, class E>
__device__ ScoreMask<Scores> seen_of(const QuadraticInputs<T, E>& in, const HeadMatrix<const E>& k,
                                     const TilePosition& tile) {
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
  return seen;
}

/// The weights that dropout keeps. Its stream has one word per weight, `keys` for each query, and the tile's begin at
/// element `first`. Each lane draws for as many neighbouring keys as it holds scores, and the lanes then exchange the
/// bits; so hardly any Philox block is computed twice. All lanes of the warp must call it.
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

/// Multiplies weights by 1 / (1 − rate) where dropout keeps them, else by 0.
template <class T, class E, class Scores>
__device__ void drop(const QuadraticInputs<T, E>& in, ScoreMask<Scores> kept, Scores s) {
  if (!in.drops) return;
  for_each_score<Scores>([&](int q, int c) { s.at(q, c) *= kept.has(q, c) ? in.weight_factor : T{0}; });
}

/// Sets scores to `value` where the key is not seen.
template <class Scores, class T>
__device__ void hide(ScoreMask<Scores> seen, Scores s, T value) {
  if (seen.all()) return;
  for_each_score<Scores>([&](int q, int c) {
    if (!seen.has(q, c)) s.at(q, c) = value;
  });
}

/// The running maximum and denominator of a thread's queries, while it goes over the keys tile by tile.
template <class T, int kQueries>
struct Totals {
  T maximum[kQueries], total[kQueries] = {};
  T rescale[kQueries];  ///< factor for sums of earlier tiles, e^{m − m'}

  __device__ Totals() {
#pragma unroll
    for (int q = 0; q < kQueries; ++q) {
      maximum[q] = -infinity<T>();
      rescale[q] = 1;
    }
  }
  /// 1 / g, by which a query's sum is multiplied in the end; 0 where no key is seen.
  __device__ T inverse(int q) const { return total[q] == 0 ? T{0} : T{1} / total[q]; }
  /// The denominator g that is saved for backward; for softmax log2 g.
  template <class E>
  __device__ T denominator(const QuadraticInputs<T, E>& in, int q) const {
    return in.softmax ? maximum[q] + log2(total[q]) : total[q];
  }
};

/// Turns products q·k into weights in place, and updates each query's maximum and denominator.
///   softmax:     e^(s − m)
///   polynomial:  f(s) = a0 + a1 s + a2 s²
template <class T, class E, class Scores>
__device__ void weigh(const QuadraticInputs<T, E>& in, const HeadMatrix<const E>& k, const TilePosition& tile,
                      Scores s, Totals<T, Scores::kQueries>& totals) {
  const auto seen = seen_of<Scores>(in, k, tile);
  T sum[Scores::kQueries] = {};
  if (in.softmax) {
    for_each_score<Scores>([&](int q, int c) { s.at(q, c) *= in.binary_scale; });
    hide(seen, s, -infinity<T>());
#pragma unroll
    for (int q = 0; q < Scores::kQueries; ++q) {
      T largest = totals.maximum[q];  // never NaN: max ignores it
#pragma unroll
      for (int c = 0; c < Scores::kKeys; ++c) largest = max(largest, s.at(q, c));
      largest = reduce_lanes<Scores::kLanes>(largest, [](T a, T b) { return max(a, b); });
      const T base = largest == -infinity<T>() ? T{0} : largest;
      totals.rescale[q] = exp2(totals.maximum[q] - base);
      totals.maximum[q] = largest;
#pragma unroll
      for (int c = 0; c < Scores::kKeys; ++c) {
        s.at(q, c) = exp2(s.at(q, c) - base);  // [Vaswani eq.1]
        sum[q] += s.at(q, c);
      }
    }
  } else if (!in.drops_tokens()) {
    for_each_score<Scores>([&](int q, int c) {
      const T score = s.at(q, c) * in.scale;
      s.at(q, c) = in.a0 + score * (in.a1 + score * in.a2);  // [FAST eq.8]
    });
    hide(seen, s, T{0});
    for_each_score<Scores>([&](int q, int c) { sum[q] += s.at(q, c); });
  } else {
    const auto tokens = kept_tokens_of<Scores>(in, tile);
    for_each_score<Scores>([&](int q, int c) {
      const T score = s.at(q, c) * in.scale, rest = score * (in.a1 + score * in.a2);
      const T weight = in.a0 + rest * (tokens.has(q, c) ? in.token_factor : T{0});
      const T summed = in.shared_denominator ? weight : in.a0 + rest;
      sum[q] += seen.has(q, c) ? summed : T{0};
      s.at(q, c) = weight;
    });
    hide(seen, s, T{0});
  }
#pragma unroll
  for (int q = 0; q < Scores::kQueries; ++q) {
    totals.total[q] = totals.total[q] * totals.rescale[q] + reduce_lanes<Scores::kLanes>(sum[q], Plus());
  }
  drop(in, kept_weights_of<Scores>(in, tile), s);
}

/// Further arguments of the backward kernels.
template <class T, class E>
struct QuadraticCotangents {
  HeadsView<const E> d_o, o;
  const T* denominator;
  T* delta;  ///< [B, H, N]: d_o·o
};

/// delta = d_o·o of each row. Memory bounds it.
template <class ThreadGroup, class E, class T>
__global__ void find_deltas(HeadSizes all, HeadRows<const E> d_o, HeadRows<const E> o, T* delta) {
  using Batch = RowBatch<ThreadGroup>;
  for (int64_t task = blockIdx.x; task < Batch::tasks(all); task += gridDim.x) {
    const Batch batch(all, task);
    T sum[kRowBatch] = {};
    const auto add = [&](int64_t c) {
      const auto g = batch.template load<T>(d_o, batch.has, c), y = batch.template load<T>(o, batch.has, c);
      for (int j = 0; j < kRowBatch; ++j) {
        for (int k = 0; k < kPack; ++k) sum[j] += g.of[j].of[k] * y.of[j].of[k];
      }
    };
    add(batch.column());
    batch.for_further_packs(add);
    Batch::template reduce<JoinedIn<E>>(sum);
    for (int j = 0; j < kRowBatch; ++j) {
      if (ThreadGroup::lane() == 0 && batch.has[j]) delta[batch.row + j * ThreadGroup::rows] = sum[j];
    }
  }
}

/// The cotangents, with `delta` filled by find_deltas.
template <class T, class E>
QuadraticCotangents<T, E> with_deltas(const QuadraticInputs<T, E>&, const View& d_o, const View& o,
                                      const View& denominator, const Scratch<T>& delta) {
  const HeadSizes all(o);
  for_row_group(all.width, [&](auto group) {
    using G = decltype(group);
    launch(find_deltas<G, E, T>, RowBatch<G>::tasks(all), kThreads, all, HeadRows<const E>(d_o), HeadRows<const E>(o),
           delta.data());
  });
  return {HeadsView<const E>(d_o), HeadsView<const E>(o), data<const T>(denominator), delta.data()};
}

/// A query's factors in the gradients of its scores: log2 g for softmax and otherwise 1 / g (0 for g = 0), and delta.
/// Both are 0 for a query behind the last.
template <class T>
struct alignas(2 * sizeof(T)) QueryFactors {
  T log_or_inverse, delta;
};
template <class T, class E>
__device__ QueryFactors<T> query_factors(const QuadraticInputs<T, E>& in, const QuadraticCotangents<T, E>& from,
                                         int64_t head, int64_t i) {
  if (i >= in.queries) return {};
  const T g = from.denominator[head * in.queries + i], delta = from.delta[head * in.queries + i];
  if (in.softmax) return {g, delta};
  if (g == 0) return {};
  return {T{1} / g, delta};
}

/// Turns the products s = q·k into weights p (with dropout), and the products ds = d_o·v into the gradients of q·k,
/// both in place. `factors(q)` are the factors of query q.
///   softmax:     ∂s_j = p_j (d_o·v_j − delta)
///   polynomial:  ∂s_j = (a1 + 2 a2 s_j) (d_o·v_j − delta) / g
/// Dropout of whole tokens multiplies d_o·v_j by the pair's factor c_j, and delta too where dropout is shared with
/// the denominator.
template <class T, class E, class Scores, class Factors>
__device__ void score_gradients(const QuadraticInputs<T, E>& in, const HeadMatrix<const E>& k,
                                const TilePosition& tile, Scores s, Scores ds, Factors factors) {
  const auto kept_mask = kept_weights_of<Scores>(in, tile);
  drop(in, kept_mask, ds);
  QueryFactors<T> of[Scores::kQueries];
#pragma unroll
  for (int q = 0; q < Scores::kQueries; ++q) of[q] = factors(q);
  if (in.softmax) {
    for_each_score<Scores>([&](int q, int c) {
      s.at(q, c) = exp2(s.at(q, c) * in.binary_scale - of[q].log_or_inverse);
      ds.at(q, c) = s.at(q, c) * (ds.at(q, c) * in.scale - of[q].delta * in.scale);  // gradient of [Vaswani eq.1]
    });
  } else if (!in.drops_tokens()) {
    for_each_score<Scores>([&](int q, int c) {
      const T score = s.at(q, c) * in.scale, inverse = of[q].log_or_inverse;
      s.at(q, c) = (in.a0 + score * (in.a1 + score * in.a2)) * inverse;                                // [FAST eq.7]
      ds.at(q, c) = (in.a1 + 2 * in.a2 * score) * (ds.at(q, c) - of[q].delta) * (in.scale * inverse);  // [FAST eq.15]
    });
  } else {
    const auto tokens = kept_tokens_of<Scores>(in, tile);
    for_each_score<Scores>([&](int q, int c) {
      const T score = s.at(q, c) * in.scale, inverse = of[q].log_or_inverse;
      const T kept = tokens.has(q, c) ? in.token_factor : T{0};
      const T mean = (in.shared_denominator ? kept : T{1}) * of[q].delta;
      s.at(q, c) = (in.a0 + score * (in.a1 + score * in.a2) * kept) * inverse;
      ds.at(q, c) = (in.a1 + 2 * in.a2 * score) * (kept * ds.at(q, c) - mean) * (in.scale * inverse);
    });
  }
  const auto seen = seen_of<Scores>(in, k, tile);
  hide(seen, s, T{0});
  hide(seen, ds, T{0});
  drop(in, kept_mask, s);
}

}  // namespace linnet::cuda
