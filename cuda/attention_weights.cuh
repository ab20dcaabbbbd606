#pragma once

#include <linnet/cuda/first_queries.cuh>
#include <linnet/cuda/group.cuh>
#include <linnet/cuda/head_rows.cuh>
#include <linnet/cuda/heads.cuh>
#include <linnet/cuda/kernel.cuh>
#include <linnet/cuda/math.cuh>
#include <linnet/cuda/random_byte.cuh>
#include <linnet/cuda/recording.cuh>
#include <linnet/cuda/scratch.cuh>
#include <linnet/cuda/tile.cuh>

/// The mathematics of quadratic attention, for the scores that a thread holds of a tile: what all kernels of
/// attention.cu and fastmax_mma.cu share.

namespace linnet::cuda {

/// What all kernels read: queries, keys and values of type E, to be computed with in T.
template <class T, class E>
struct Quadratic {
  Heads<const E> q, k, v;
  Keep keep;
  int64_t batch, heads, queries, keys, width;
  T scale, a0, a1, a2;
  T weight_factor, token_factor;  ///< of a weight that dropout leaves, of a pair that dropout of tokens leaves
  bool softmax, causal, drops;
  uint64_t threshold;
  int keep_tokens;
  bool shared_normaliser;
  LiveKey key, query_key, key_key;
  FirstQuery first_query;

  Quadratic(const View& q_view, const View& k_view, const View& v_view, const View* keep_view,
            const AttentionOptions& options, const FirstQueries& first_queries)
      : q(q_view),
        k(k_view),
        v(v_view),
        keep(keep_view),
        batch(q_view.shape[0]),
        heads(q_view.shape[1]),
        queries(q_view.shape[2]),
        keys(k_view.shape[2]),
        width(q_view.shape[3]),
        scale(static_cast<T>(options.scale)),
        a0(static_cast<T>(options.kind.a0)),
        a1(static_cast<T>(options.kind.a1)),
        a2(static_cast<T>(options.kind.a2)),
        weight_factor(static_cast<T>(1 / (1 - options.dropout))),
        token_factor(1),
        softmax(options.kind.softmax),
        causal(options.causal),
        drops(options.dropout > 0),
        threshold(keep_threshold(1 - options.dropout)),
        keep_tokens(options.tokens.keep),
        shared_normaliser(options.tokens.shared_normaliser),
        key(options.key),
        query_key(options.tokens.query_key),
        key_key(options.tokens.key_key),
        first_query(first_queries.of()) {
    if (drops_tokens()) token_factor = static_cast<T>(256.0 / keep_tokens) * static_cast<T>(256.0 / keep_tokens);
  }

  __host__ __device__ int64_t query_tiles() const { return ceil_div(queries, kTile<T>); }
  __host__ __device__ int64_t key_tiles() const { return ceil_div(keys, kTile<T>); }

  /// Whether whole queries and keys are dropped: by the bytes that the CPU's factorised form draws, of which this one
  /// is that of a token at `position`, counted as keys are.
  __host__ __device__ bool drops_tokens() const { return !softmax && keep_tokens % 256 != 0; }
  __device__ int64_t token(int64_t head, int64_t position) const {
    const int64_t first = min(lag(), int64_t{0}), positions = max(keys, queries + lag()) - first;
    return head * (ceil_div(positions, 64) * 64) + position - first;
  }
  /// Where the first query is, counted as keys are.
  __device__ int64_t lag() const { return causal ? keys - queries : 0; }

  /// The keys that query `i` sees are those before this, without padding.
  __device__ int64_t visible(int64_t i) const {
    if (i >= queries) return 0;
    return causal ? min(max(i + 1 + keys - queries, int64_t{0}), keys) : keys;
  }
  __device__ int64_t visible_to_tile(int64_t first) const { return visible(min(first + kTile<T>, queries) - 1); }
};

/// Blocks that share the columns of a tile of results; one even without columns.
template <class T>
int64_t chunks_of(int64_t width) {
  return std::max(ceil_div(width, kTile<T>), int64_t{1});
}

/// One head, some rows, some columns: what a block makes at a time.
template <class T, class E>
struct QuadraticTask {
  int64_t head, b, h, first, column;

  __device__ QuadraticTask(const Quadratic<T, E>& in, int64_t index, int64_t tiles, int64_t chunks)
      : head(index / chunks / tiles),
        b(head / in.heads),
        h(head % in.heads),
        first(index / chunks % tiles * kTile<T>),
        column(index % chunks * kTile<T>) {}

  template <class U>
  __device__ Rows<U> rows(const Heads<U>& x, int64_t count, int64_t width) const {
    return {x.at(b, h, 0), x.row_stride, 0, count, width, nullptr, 0};
  }
  __device__ Rows<const E> queries(const Quadratic<T, E>& in, const Heads<const E>& x) const {
    Rows<const E> result = rows(x, in.queries, in.width);
    result.begin = in.first_query.of(b);
    return result;
  }
  __device__ Rows<const E> keys(const Quadratic<T, E>& in, const Heads<const E>& x) const {
    Rows<const E> result = rows(x, in.keys, in.width);
    if (in.keep.data != nullptr) {
      result.keep = in.keep.data + b * in.keep.batch_stride;
      result.keep_stride = in.keep.stride;
    }
    return result;
  }
};

// ---- Scores ----

/// What a thread holds of a tile of scores: the pairs of its queries and keys, and how many neighbours hold the other
/// keys of these queries. This is what the products of tile.cuh leave.
template <class T>
struct PartScores {
  static constexpr int kQueries = kPart<T>, kKeys = kPart<T>, kLanes = kSide;
  Part<T>& part;

  __device__ static int query(int q) { return part_row<T>() + q; }
  __device__ static int key(int k) { return part_column<T>() + k; }
  __device__ T& at(int q, int k) const { return part.of[q][k]; }
};

// What may be left out of sums, as bits: bit c stands for key c of the thread. Drawn in functions that are not
// inlined, to leave their registers to kernels.

/// Without the keys that are padding.
template <class Scores>
__noinline__ __device__ uint32_t without_padding(uint32_t seen, const bool* keep, int64_t stride) {
#pragma unroll 1
  for (int c = 0; c < Scores::kKeys; ++c) {
    if ((seen >> c & 1) != 0 && !keep[Scores::key(c) * stride]) seen &= ~(1u << c);
  }
  return seen;
}

/// The weights that dropout leaves, from element `first` of its stream on. Neighbours share a block of random words.
template <class Scores>
__noinline__ __device__ uint32_t left_weights(RandomKey key, uint64_t threshold, uint64_t first) {
  uint64_t number = (first + static_cast<uint64_t>(Scores::key(0))) / 4;
  PhiloxBlock words = philox(key, number);
  uint32_t left = 0;
#pragma unroll 1
  for (int c = 0; c < Scores::kKeys; ++c) {
    const uint64_t index = first + static_cast<uint64_t>(Scores::key(c));
    if (index / 4 != number) {
      number = index / 4;
      words = philox(key, number);
    }
    // Not word[index % 4], which would move the words to memory.
    const uint32_t low = index % 2 == 0 ? words.word[0] : words.word[1];
    const uint32_t high = index % 2 == 0 ? words.word[2] : words.word[3];
    left |= uint32_t{(index % 4 < 2 ? low : high) < threshold} << c;
  }
  return left;
}

/// The keys that dropout of tokens leaves, by the bytes from `first` on.
template <class Scores>
__noinline__ __device__ uint32_t left_tokens(RandomKey key, int keep, int64_t first) {
  uint32_t left = 0;
#pragma unroll 1
  for (int c = 0; c < Scores::kKeys; ++c) left |= uint32_t{random_byte(key, first + Scores::key(c)) < keep} << c;
  return left;
}

/// Of one query and the keys that a thread holds.
template <class T>
struct KeyMasks {
  uint32_t seen = 0;                     ///< neither padding nor in the future
  uint32_t weights = ~0u, tokens = ~0u;  ///< what dropout leaves of weights and of tokens

  template <class E, class Scores>
  __device__ KeyMasks(const Quadratic<T, E>& in, const Rows<const E>& k, int64_t head, int64_t i, int64_t first_key,
                      Scores) {
    const auto visible = static_cast<int>(min(max(in.visible(i) - first_key, int64_t{0}), int64_t{kTile<T>}));
#pragma unroll
    for (int c = 0; c < Scores::kKeys; ++c) seen |= uint32_t{Scores::key(c) < visible} << c;
    if (k.keep != nullptr) seen = without_padding<Scores>(seen, k.keep + first_key * k.keep_stride, k.keep_stride);
    if (in.drops) {
      const int64_t first = (head * in.queries + i) * in.keys + first_key;
      weights = left_weights<Scores>(in.key, in.threshold, static_cast<uint64_t>(first));
    }
    if (in.drops_tokens()) {
      const bool has_query = random_byte(in.query_key, in.token(head, i + in.lag())) < in.keep_tokens;
      tokens = has_query ? left_tokens<Scores>(in.key_key, in.keep_tokens, in.token(head, first_key)) : 0;
    }
  }

  __device__ bool sees(int c) const { return (seen >> c & 1) != 0; }
  template <class E>
  __device__ T weight_factor(const Quadratic<T, E>& in, int c) const {
    return (weights >> c & 1) != 0 ? in.weight_factor : T{0};
  }
  template <class E>
  __device__ T token_factor(const Quadratic<T, E>& in, int c) const {
    return (tokens >> c & 1) != 0 ? in.token_factor : T{0};
  }
};

/// Of some queries, while the weights of their keys are summed up tile by tile.
template <class T, int kQueries>
struct Totals {
  T maximum[kQueries], total[kQueries] = {};
  T fade[kQueries];  ///< by how much what was summed before the last tile has to shrink

  __device__ Totals() {
#pragma unroll
    for (int q = 0; q < kQueries; ++q) maximum[q] = -infinity<T>();
  }
  /// What is written down for backward.
  template <class E>
  __device__ T normaliser(const Quadratic<T, E>& in, int q) const {
    return in.softmax ? maximum[q] + log(total[q]) : total[q];
  }
};

/// Turns products q·k into weights, and brings the maximum and the sum of each query up to date.
template <class T, class E, class Scores, int kQueries>
__device__ void weigh(const Quadratic<T, E>& in, const Rows<const E>& k, int64_t head, int64_t first_query,
                      int64_t first_key, Scores s, Totals<T, kQueries>& totals) {
#pragma unroll
  for (int q = 0; q < kQueries; ++q) {
    const KeyMasks<T> mask(in, k, head, first_query + s.query(q), first_key, s);
    T sum = 0;
    totals.fade[q] = 1;
    if (in.softmax) {
      T largest = -infinity<T>();
#pragma unroll
      for (int c = 0; c < Scores::kKeys; ++c) {
        s.at(q, c) *= in.scale;
        if (mask.sees(c) && s.at(q, c) > largest) largest = s.at(q, c);
      }
      largest = Larger()(totals.maximum[q], fold_lanes<Scores::kLanes>(largest, Larger()));
      const T base = largest == -infinity<T>() ? T{0} : largest;
      totals.fade[q] = exp(totals.maximum[q] - base);
      totals.maximum[q] = largest;
#pragma unroll
      for (int c = 0; c < Scores::kKeys; ++c) {
        const T weight = mask.sees(c) ? exp(s.at(q, c) - base) : T{0};
        sum += weight;
        s.at(q, c) = weight * mask.weight_factor(in, c);
      }
    } else {
#pragma unroll
      for (int c = 0; c < Scores::kKeys; ++c) {
        const T score = s.at(q, c) * in.scale, rest = score * (in.a1 + score * in.a2);
        const T weight = in.a0 + rest * mask.token_factor(in, c);
        const T summed = in.shared_normaliser ? weight : in.a0 + rest;
        sum += mask.sees(c) ? summed : T{0};
        s.at(q, c) = (mask.sees(c) ? weight : T{0}) * mask.weight_factor(in, c);
      }
    }
    totals.total[q] = totals.total[q] * totals.fade[q] + fold_lanes<Scores::kLanes>(sum, Plus());
  }
}

/// What the backward kernels read besides.
template <class T, class E>
struct QuadraticCotangents {
  Heads<const E> d_o, o;
  const T* normaliser;
  T* delta;  ///< [B, H, N]: d_o·o
};

template <class Group, class E, class T>
__global__ void find_deltas(HeadSizes all, HeadRows<const E> d_o, HeadRows<const E> o, T* delta) {
  using Batch = RowBatch<Group>;
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
    Batch::template join<JoinedIn<E>>(sum);
    for (int j = 0; j < kRowBatch; ++j) {
      if (Group::lane() == 0 && batch.has[j]) delta[batch.row + j * Group::rows] = sum[j];
    }
  }
}

/// With d_o·o of all rows in `delta`.
template <class T, class E>
QuadraticCotangents<T, E> with_deltas(const Quadratic<T, E>&, const View& d_o, const View& o, const View& normaliser,
                                      const Scratch<T>& delta) {
  const HeadSizes all(o);
  for_row_group(all.width, [&](auto group) {
    using G = decltype(group);
    launch(find_deltas<G, E, T>, RowBatch<G>::tasks(all), kThreads, all, HeadRows<const E>(d_o), HeadRows<const E>(o),
           delta.data());
  });
  return {Heads<const E>(d_o), Heads<const E>(o), data<const T>(normaliser), delta.data()};
}

/// Turns the products s = q·k into weights p (with dropout), and the products ds = d_o·v into the gradients of the
/// products q·k.
///   softmax:     ∂s_j = p_j (d_o·v_j − delta)
///   polynomial:  ∂s_j = (a1 + 2 a2 s_j) (d_o·v_j − delta) / g
/// With dropout of whole tokens, whose factors make up c_j, d_o·v_j is multiplied by c_j, and delta too where the
/// denominator g saw the factors.
template <class T, class E, class Scores>
__device__ void score_gradients(const Quadratic<T, E>& in, const QuadraticCotangents<T, E>& from,
                                const Rows<const E>& k, int64_t head, int64_t first_query, int64_t first_key,
                                Scores s, Scores ds) {
#pragma unroll
  for (int q = 0; q < Scores::kQueries; ++q) {
    const int64_t i = first_query + s.query(q);
    const KeyMasks<T> mask(in, k, head, i, first_key, s);
    const bool there = i < in.queries;
    const T normaliser = there ? from.normaliser[head * in.queries + i] : T{1};
    const T delta = there ? from.delta[head * in.queries + i] : T{0};
    if (in.softmax) {
#pragma unroll
      for (int c = 0; c < Scores::kKeys; ++c) {
        const T weight = exp(s.at(q, c) * in.scale - normaliser), factor = mask.weight_factor(in, c);
        const T gradient = weight * (ds.at(q, c) * factor - delta) * in.scale;
        s.at(q, c) = mask.sees(c) ? weight * factor : T{0};
        ds.at(q, c) = mask.sees(c) ? gradient : T{0};
      }
    } else {
      const T inverse = T{1} / normaliser;
#pragma unroll
      for (int c = 0; c < Scores::kKeys; ++c) {
        const T score = s.at(q, c) * in.scale, factor = mask.weight_factor(in, c);
        const T kept = mask.token_factor(in, c), seen = in.shared_normaliser ? kept : T{1};
        const T difference = (kept * ds.at(q, c) * factor - seen * delta) * in.scale;
        const T weight = (in.a0 + score * (in.a1 + score * in.a2) * kept) * inverse * factor;
        s.at(q, c) = mask.sees(c) ? weight : T{0};
        ds.at(q, c) = mask.sees(c) ? (in.a1 + 2 * in.a2 * score) * difference * inverse : T{0};
      }
    }
  }
}

}  // namespace linnet::cuda
