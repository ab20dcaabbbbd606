#pragma once

#include <algorithm>

#include <linnet/cuda/attention/first_queries.cuh>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/recording.cuh>
#include <linnet/cuda/device/tile.cuh>

/// The arguments of the kernels of quadratic attention: the tensors and settings, and the task of a block.

namespace linnet::cuda {

/// Kernels compute e^s as 2^(s·log2 e), because exp2 costs half as much as exp.
constexpr double kLog2E = 1.4426950408889634;

/// The keys [begin, end).
struct KeyRange {
  int64_t begin, end;

  __device__ bool has(int64_t key) const { return key >= begin && key < end; }
};

/// The first number of [0, count) for which `condition` is true, or `count`. It must be true for all later numbers
/// too. Each lane tries one number at a time, because the latency of the condition's loads dominates. All lanes of a
/// warp must call it.
template <class Condition>
__device__ int64_t first_where(int64_t count, Condition condition) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  int64_t begin = 0, end = count;
  while (begin < end) {
    const int64_t step = ceil_div(end - begin, kWarp), tried = begin + lane * step;
    const int first = reduce_lanes<kWarp>(tried >= end || condition(tried) ? lane : kWarp, Minimum());
    end = min(begin + first * step, end);
    if (first > 0) begin += (first - 1) * step + 1;
  }
  return begin;
}

/// The arguments of all kernels of quadratic attention. Elements have type E and are computed as T.
template <class T, class E>
struct QuadraticInputs {
  using Computed = T;

  HeadsView<const E> q, k, v;
  PaddingMask padding_mask;
  int64_t batch, heads, queries, keys, width;
  T scale, a0, a1, a2;
  T binary_scale;                 ///< scale · log2 e
  T weight_factor, token_factor;  ///< dropout's scale of a weight that it keeps; of a pair of tokens that it keeps
  bool softmax, causal, drops;
  uint64_t threshold;
  int keep_of_256;
  bool shared_denominator;
  LiveKey dropout_rng, q_rng, k_rng;
  FirstQuery first_query;

  QuadraticInputs(const View& q_view, const View& k_view, const View& v_view, const AttentionMask& mask,
                  const AttentionParams& params, const FirstQueries& first_queries)
      : q(q_view),
        k(k_view),
        v(v_view),
        padding_mask(mask.padding),
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

  /// Whether dropout is of whole queries and keys.
  __host__ __device__ bool drops_tokens() const { return !softmax && keep_of_256 % 256 != 0; }
  /// The index of a token's random byte, the same as in the factorised form. Positions are those of keys.
  __device__ int64_t token(int64_t head, int64_t position) const {
    const int64_t first = min(causal_offset(), int64_t{0}), positions = max(keys, queries + causal_offset()) - first;
    return head * (ceil_div(positions, 64) * 64) + position - first;
  }
  /// The position of the first query, if key j has position j.
  __device__ int64_t causal_offset() const { return causal ? keys - queries : 0; }

  /// The end of the keys that query `i` sees, except padding.
  __device__ int64_t visible(int64_t i) const {
    if (i >= queries) return 0;
    return causal ? min(max(i + 1 + keys - queries, int64_t{0}), keys) : keys;
  }

  // ---- Members that SparseInputs replaces ----

  static constexpr bool kSparse = false;

  /// Whether query `i` of a head sees key `j`, unless it is padding.
  __device__ bool sees(int64_t, int64_t i, int64_t j) const { return j < visible(i); }
  /// A range that contains every key that the tile of queries from `first` on sees.
  __device__ KeyRange visible_to_tile(int64_t, int64_t first) const {
    return {0, visible(min(first + kTile<T>, queries) - 1)};
  }
  /// A range that contains every query that sees any of the `count` keys from `key` on.
  __device__ KeyRange queries_of(int64_t, int64_t key, int64_t) const {
    return {causal ? max(key + queries - keys, int64_t{0}) : 0, queries};
  }
  /// Whether all queries from `query` on see all `count` keys from `key` on, except padding.
  __device__ bool all_see(int64_t, int64_t query, int64_t, int64_t key, int64_t count) const {
    return key + count <= visible(query);
  }
};

/// The arguments if ranges or codes say which keys a query sees, or if the call continues the results over other
/// keys. They have kernels of their own, because the other kernels have no register left for this.
template <class T, class E>
struct SparseInputs : QuadraticInputs<T, E> {
  static constexpr bool kSparse = true;

  const int64_t* ranges = nullptr;  ///< [B, H, N, 2]; null if there are none
  int64_t range_batch_stride = 0, range_head_stride = 0;
  const int32_t* codes = nullptr;  ///< [B, H, rounds, N]
  int64_t rounds = 0;
  /// If the call continues the results over other keys, their denominators [B, H, N]; null otherwise. It is a copy,
  /// because the block of the first columns writes the new denominators while others read these.
  const T* earlier_denominators = nullptr;
  bool accumulate, accumulate_keys, has_self_score;
  T self_score;  ///< multiplied by log2 e

  SparseInputs(const View& q_view, const View& k_view, const View& v_view, const AttentionMask& mask,
               const AttentionParams& params, const FirstQueries& first_queries)
      : QuadraticInputs<T, E>(q_view, k_view, v_view, mask, params, first_queries),
        accumulate(params.accumulate),
        accumulate_keys(params.accumulate_keys),
        has_self_score(params.has_self_score),
        self_score(static_cast<T>(params.self_score * kLog2E)) {
    if (mask.ranges != nullptr) {
      ranges = static_cast<const int64_t*>(mask.ranges->data);
      range_batch_stride = mask.ranges->strides[0];
      range_head_stride = mask.ranges->strides[1];
    }
    if (mask.codes != nullptr) {
      codes = static_cast<const int32_t*>(mask.codes->data);
      rounds = mask.codes->shape[2];
    }
  }

  __device__ bool sees(int64_t head, int64_t i, int64_t j) const { return visible(head, i).has(j); }
  /// The keys that query `i` of a head sees, except padding. Neither end decreases with i < queries.
  __device__ KeyRange visible(int64_t head, int64_t i) const {
    if (ranges == nullptr || i >= this->queries) return {0, QuadraticInputs<T, E>::visible(i)};
    const int64_t* range =
        ranges + head / this->heads * range_batch_stride + head % this->heads * range_head_stride + 2 * i;
    return {range[0], range[1]};
  }
  /// The range begins at the first key of a tile.
  __device__ KeyRange visible_to_tile(int64_t head, int64_t first) const {
    return {visible(head, first).begin / kTile<T> * kTile<T>,
            visible(head, min(first + kTile<T>, this->queries) - 1).end};
  }
  __device__ KeyRange queries_of(int64_t head, int64_t key, int64_t count) const {
    if (ranges == nullptr) return QuadraticInputs<T, E>::queries_of(head, key, count);
    return {first_where(this->queries, [&](int64_t i) { return visible(head, i).end > key; }),
            first_where(this->queries, [&](int64_t i) { return visible(head, i).begin >= key + count; })};
  }
  __device__ bool all_see(int64_t head, int64_t query, int64_t rows, int64_t key, int64_t count) const {
    if (codes != nullptr || has_self_score || query + rows > this->queries) return false;
    return visible(head, query + rows - 1).begin <= key && key + count <= visible(head, query).end;
  }
  /// Whether codes hide key `j` from query `i`. They do not hide a token from itself if it has a self score.
  __device__ bool hidden_by_codes(int64_t head, int64_t i, int64_t j) const {
    if (has_self_score && i == j) return false;
    for (int64_t round = 0; round < rounds; ++round) {
      const int32_t* of_round = codes + (head * rounds + round) * this->keys;
      if (static_cast<uint32_t>(of_round[i]) - static_cast<uint32_t>(of_round[j]) <= 1) return true;
    }
    return false;
  }
};

/// The number of tiles of columns. A block computes a tile of the result for each of them. It is 1 without columns.
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
      result.padding_mask = in.padding_mask.data + b * in.padding_mask.batch_stride + h * in.padding_mask.head_stride;
      result.mask_stride = in.padding_mask.stride;
    }
    return result;
  }
};

}  // namespace linnet::cuda
