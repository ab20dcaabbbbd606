#include <algorithm>
#include <type_traits>

#include <linnet/cuda/attention_mma.cuh>
#include <linnet/cuda/attention_tiles.cuh>
#include <linnet/cuda/scratch.cuh>
#include <linnet/cuda/standardise.cuh>

/// Quadratic attention, tile by tile of queries and keys: softmax (Vaswani et al. 2017, eq. 1) and the polynomial
/// weights of Fastmax (Gerami et al. 2024, eqs. 7–9) in one skeleton. Scores stay in registers and shared memory,
/// with the running maximum and sum of Milakov & Gimelshein 2018, as in FlashAttention (Dao et al. 2022). Backward
/// has one kernel for dk and dv and one for dq, so that every sum has a fixed order and needs no atomics.
///
/// There are two sets of kernels: those of attention_mma.cuh for products of bfloat16 in heads of up to 64 columns,
/// and those of attention_tiles.cuh for all else. What bounds them: 4·N·M·D multiplications and additions forward,
/// 14·N·M·D backward (half when causal); the first set, by the count of instructions, making scores into weights.

namespace linnet::cuda {
namespace {

/// Whether the GPU's code is for one whose tensor cores take bfloat16.
bool has_mma() {
  static const bool has = [] {
    cudaFuncAttributes attributes;
    check(cudaFuncGetAttributes(&attributes, attend_mma<32, float>), "asking for a kernel's architecture");
    return attributes.ptxVersion >= 80;
  }();
  return has;
}

/// Calls `f` with the width that the kernels of attention_mma.cuh are to have for such queries, if they are to be
/// taken, and a zero of the type of elements; whether they are.
template <class F>
bool dispatch_mma(const View& q, F&& f) {
  const int64_t width = q.shape[3];
  const bool rounds = q.dtype == DType::float32 && precision() == Precision::bfloat16;
  if (!(rounds || q.dtype == DType::bfloat16) || width > 64 || !has_mma()) return false;
  const auto with_elements = [&](auto zero) {
    width <= 32 ? f(std::integral_constant<int, 32>(), zero) : f(std::integral_constant<int, 64>(), zero);
  };
  rounds ? with_elements(float{}) : with_elements(BFloat16{});
  return true;
}

void attention(View o, View normaliser, View q, View k, View v, const View* keep, AttentionOptions options) {
  const FirstQueries first_queries(q, k, keep, options.causal);
  if (options.standardise) {
    options.standardise = false;
    const Standardised queries(q, nullptr, first_queries.of()), keys(k, keep, {});
    return attention(o, normaliser, queries.view(), keys.view(), v, keep, options);
  }
  const bool done = dispatch_mma(q, [&](auto width, auto zero) {
    using E = decltype(zero);
    const Quadratic<float, E> in(q, k, v, keep, options, first_queries);
    launch(attend_mma<decltype(width)::value, E>, in.batch * in.heads * in.query_tiles(), kMmaThreads, in,
           Heads<E>(o), data<float>(normaliser), in.query_tiles());
  });
  if (done) return;
  dispatch_products(q.dtype, [&](auto computed, auto shared, auto element) {
    using T = decltype(computed);
    using S = decltype(shared);
    using E = decltype(element);
    const Quadratic<T, E> in(q, k, v, keep, options, first_queries);
    const int64_t tiles = in.query_tiles(), chunks = chunks_of<T>(in.width);
    launch(attend<T, S, E>, in.batch * in.heads * tiles * chunks, kThreads, in, Heads<E>(o), data<T>(normaliser),
           tiles, chunks);
  });
}

template <class T, class E>
QuadraticCotangents<T, E> with_deltas(const Quadratic<T, E>& in, const View& d_o, const View& o,
                                      const View& normaliser, const Scratch<T>& delta) {
  const QuadraticCotangents<T, E> from{Heads<const E>(d_o), Heads<const E>(o), data<const T>(normaliser),
                                       delta.data()};
  const int64_t rows = in.batch * in.heads * in.queries;
  launch(find_deltas<T, E>, ceil_div(rows, Group<kWarp>::rows), kThreads, in, from);
  return from;
}

void attention_backward(View dq, View dk, View dv, View d_o, View o, View normaliser, View q, View k, View v,
                        const View* keep, AttentionOptions options) {
  const FirstQueries first_queries(q, k, keep, options.causal);
  if (options.standardise) {
    options.standardise = false;
    const Standardised queries(q, nullptr, first_queries.of()), keys(k, keep, {});
    attention_backward(dq, dk, dv, d_o, o, normaliser, queries.view(), keys.view(), v, keep, options);
    queries.differentiate(dq);
    keys.differentiate(dk);
    return;
  }
  const int64_t heads = q.shape[0] * q.shape[1];
  const bool done = dispatch_mma(q, [&](auto width, auto zero) {
    using E = decltype(zero);
    const Quadratic<float, E> in(q, k, v, keep, options, first_queries);
    const Scratch<float> delta(heads * in.queries);
    const auto from = with_deltas(in, d_o, o, normaliser, delta);
    launch(attend_backward_keys_mma<decltype(width)::value, E>, heads * in.key_tiles(), kMmaThreads, in, from,
           Heads<E>(dk), Heads<E>(dv), in.key_tiles());
    launch(attend_backward_queries_mma<decltype(width)::value, E>, heads * in.query_tiles(), kMmaThreads, in, from,
           Heads<E>(dq), in.query_tiles());
  });
  if (done) return;
  dispatch_products(q.dtype, [&](auto computed, auto shared, auto element) {
    using T = decltype(computed);
    using S = decltype(shared);
    using E = decltype(element);
    const Quadratic<T, E> in(q, k, v, keep, options, first_queries);
    const int64_t chunks = chunks_of<T>(in.width);
    const Scratch<T> delta(heads * in.queries);
    const auto from = with_deltas(in, d_o, o, normaliser, delta);
    launch(attend_backward_keys<T, S, E>, heads * in.key_tiles() * chunks, kThreads, in, from, Heads<E>(dk),
           Heads<E>(dv), in.key_tiles(), chunks);
    launch(attend_backward_queries<T, S, E>, heads * in.query_tiles() * chunks, kThreads, in, from, Heads<E>(dq),
           in.query_tiles(), chunks);
  });
}

}  // namespace

void fill_attention(Backend& table) {
  table.attention = attention;
  table.attention_backward = attention_backward;
}

}  // namespace linnet::cuda
