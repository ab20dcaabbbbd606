#pragma once

#include <algorithm>

#include <linnet/cuda/attention/first_queries.cuh>
#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/recording.cuh>
#include <linnet/cuda/device/tile.cuh>

/// What the kernels of quadratic attention are called with: the tensors and settings, and the task of a block.

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

}  // namespace linnet::cuda
