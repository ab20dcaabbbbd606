#include <algorithm>
#include <type_traits>

#include <linnet/cuda/attention/mapped_rows.cuh>
#include <linnet/cuda/attention/mma_tiles.cuh>
#include <linnet/cuda/attention/tiles.cuh>
#include <linnet/cuda/device/scratch.cuh>

/// Quadratic attention, tile by tile of queries and keys: softmax (Vaswani et al. 2017, eq. 1) and the polynomial
/// weights of Fastmax (Gerami et al. 2024, eqs. 7–9), by the same kernels. Scores stay in registers and shared
/// memory, with the running maximum and sum of Milakov & Gimelshein 2018, as in FlashAttention (Dao et al. 2022).
/// Backward has one kernel for dk and dv and one for dq, so that every sum has a fixed order and needs no atomics.
///
/// There are two sets of kernels: mma_tiles.cuh for products of bfloat16 in heads of up to 64 columns, and tiles.cuh
/// for all else, where factors of bfloat16 use tensor cores too (WMMA, from sm_80 on). Bounds: 4·N·M·D
/// multiplications and additions forward, 14·N·M·D backward, half of that when causal. The kernels of mma_tiles.cuh
/// are bound, by their count of instructions, by turning scores into weights.

namespace linnet::cuda {

bool has_mma() {
  static const bool has = [] {
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, attend_mma<32, float, NoInterChunk>),
          "asking for a kernel's architecture");
    return attributes.ptxVersion >= 80;
  }();
  return has;
}

namespace {

void attention(View o, View denominator, View q, View k, View v, const View* padding_mask, AttentionParams params) {
  const FirstQueries first_queries(q, k, padding_mask, params.causal);
  if (params.map != RowMap::none) {
    const MappedRows queries(params.map, q, first_queries.of()), keys(params.map, k, padding_mask);
    params.map = RowMap::none;
    return attention(o, denominator, queries.view(), keys.view(), v, padding_mask, params);
  }
  const bool done = dispatch_mma(q, [&](auto width, auto zero) {
    using E = decltype(zero);
    const QuadraticInputs<float, E> in(q, k, v, padding_mask, params, first_queries);
    const HeadTiles tiles{0, in.batch * in.heads, 0, in.query_tiles()};
    launch(attend_mma<decltype(width)::value, E, NoInterChunk>, tiles.count(), kMmaThreads, in, HeadsView<E>(o),
           data<float>(denominator), tiles, NoInterChunk());
  });
  if (done) return;
  dispatch_products(q.dtype, [&](auto computed, auto shared, auto element) {
    using T = decltype(computed);
    using S = decltype(shared);
    using E = decltype(element);
    const QuadraticInputs<T, E> in(q, k, v, padding_mask, params, first_queries);
    const int64_t tiles = in.query_tiles(), column_tiles = column_tiles_of<T>(in.width);
    launch(attend<T, S, E>, in.batch * in.heads * tiles * column_tiles, kThreads, in, HeadsView<E>(o),
           data<T>(denominator), tiles, column_tiles);
  });
}

void attention_backward(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                        const View* padding_mask, AttentionParams params) {
  const FirstQueries first_queries(q, k, padding_mask, params.causal);
  if (params.map != RowMap::none) {
    const MappedRows queries(params.map, q, first_queries.of()), keys(params.map, k, padding_mask);
    params.map = RowMap::none;
    attention_backward(dq, dk, dv, d_o, o, denominator, queries.view(), keys.view(), v, padding_mask, params);
    queries.differentiate(dq);
    keys.differentiate(dk);
    return;
  }
  const int64_t heads = q.shape[0] * q.shape[1];
  const bool done = dispatch_mma(q, [&](auto width, auto zero) {
    using E = decltype(zero);
    const QuadraticInputs<float, E> in(q, k, v, padding_mask, params, first_queries);
    const Scratch<float> delta(heads * in.queries);
    const auto from = with_deltas(in, d_o, o, denominator, delta);
    const HeadTiles key_tiles{0, heads, 0, in.key_tiles()}, query_tiles{0, heads, 0, in.query_tiles()};
    launch(attend_backward_keys_mma<decltype(width)::value, E, NoInterChunk>, key_tiles.count(), kMmaThreads, in,
           from, HeadsView<E>(dk), HeadsView<E>(dv), key_tiles, NoInterChunk());
    launch(attend_backward_queries_mma<decltype(width)::value, E, NoInterChunk>, query_tiles.count(), kMmaThreads, in,
           from, HeadsView<E>(dq), query_tiles, NoInterChunk());
  });
  if (done) return;
  dispatch_products(q.dtype, [&](auto computed, auto shared, auto element) {
    using T = decltype(computed);
    using S = decltype(shared);
    using E = decltype(element);
    const QuadraticInputs<T, E> in(q, k, v, padding_mask, params, first_queries);
    const int64_t column_tiles = column_tiles_of<T>(in.width);
    const Scratch<T> delta(heads * in.queries);
    const auto from = with_deltas(in, d_o, o, denominator, delta);
    launch(attend_backward_keys<T, S, E>, heads * in.key_tiles() * column_tiles, kThreads, in, from, HeadsView<E>(dk),
           HeadsView<E>(dv), in.key_tiles(), column_tiles);
    launch(attend_backward_queries<T, S, E>, heads * in.query_tiles() * column_tiles, kThreads, in, from,
           HeadsView<E>(dq), in.query_tiles(), column_tiles);
  });
}

}  // namespace

void fill_attention(Backend& table) {
  table.attention = attention;
  table.attention_backward = attention_backward;
}

}  // namespace linnet::cuda
