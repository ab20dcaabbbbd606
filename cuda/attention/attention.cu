#include <linnet/cuda/attention/launches.cuh>
#include <linnet/cuda/attention/mapped_rows.cuh>

/// Quadratic attention, tile by tile of queries and keys. The same kernels compute softmax (Vaswani et al. 2017, eq.
/// 1) and the polynomial weights of Fastmax (Gerami et al. 2024, eqs. 7–9). Scores stay in registers and shared
/// memory, with the running maximum and sum of Milakov & Gimelshein 2018, as in FlashAttention (Dao et al. 2022).
/// Backward has one kernel for dk and dv and one for dq, so that every sum has a fixed order and needs no atomics.
///
/// There are two sets of kernels. mma_tiles.cuh is for bfloat16 factors in heads of up to 64 columns. tiles.cuh is
/// for all other calls; bfloat16 factors use tensor cores there too (WMMA, from sm_80 on). The bounds are 4·N·M·D
/// multiplications and additions in forward and 14·N·M·D in backward, half of that when causal. In the kernels of
/// mma_tiles.cuh, most instructions turn scores into weights, so these bound them.

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

/// The padding mask if it is [B, M]; null if each head has a mask of its own, because FirstQueries supports only one
/// for each sequence.
const View* of_sequences(const View* padding_mask) {
  return padding_mask != nullptr && padding_mask->rank == 2 ? padding_mask : nullptr;
}

bool is_sparse(const AttentionCall& call) {
  return call.mask.ranges != nullptr || call.mask.codes != nullptr || call.params.accumulate ||
         call.params.accumulate_keys || call.params.has_self_score ||
         (call.mask.padding != nullptr && call.mask.padding->rank == 3);
}

void attention(View o, View denominator, View q, View k, View v, AttentionMask mask, AttentionParams params) {
  const FirstQueries first_queries(q, k, of_sequences(mask.padding), params.causal);
  if (params.map != RowMap::none) {
    const MappedRows queries(params.map, q, first_queries.of()), keys(params.map, k, mask.padding);
    params.map = RowMap::none;
    return attention(o, denominator, queries.view(), keys.view(), v, mask, params);
  }
  const AttentionCall call{q, k, v, mask, params, first_queries};
  if (is_sparse(call)) return sparse_attention(call, o, denominator);
  launch_attention<QuadraticInputs>(call, o, denominator);
}

void attention_backward(View dq, View dk, View dv, View d_o, View o, View denominator, View q, View k, View v,
                        AttentionMask mask, AttentionParams params) {
  const FirstQueries first_queries(q, k, of_sequences(mask.padding), params.causal);
  if (params.map != RowMap::none) {
    const MappedRows queries(params.map, q, first_queries.of()), keys(params.map, k, mask.padding);
    params.map = RowMap::none;
    attention_backward(dq, dk, dv, d_o, o, denominator, queries.view(), keys.view(), v, mask, params);
    queries.differentiate(dq);
    keys.differentiate(dk);
    return;
  }
  const AttentionCall call{q, k, v, mask, params, first_queries};
  if (is_sparse(call)) return sparse_attention_backward(call, dq, dk, dv, d_o, o, denominator);
  launch_attention_backward<QuadraticInputs>(call, dq, dk, dv, d_o, o, denominator);
}

}  // namespace

void fill_attention(Backend& table) {
  table.attention = attention;
  table.attention_backward = attention_backward;
}

}  // namespace linnet::cuda
