#pragma once

#include <type_traits>

#include <linnet/cuda/attention/mma_tiles.cuh>
#include <linnet/cuda/attention/tiles.cuh>
#include <linnet/cuda/device/scratch.cuh>

/// Launches of forward and backward with QuadraticInputs or SparseInputs. Each of these has a .cu file of its own,
/// because compiling the kernels takes long.

namespace linnet::cuda {

/// The tensors and parameters of a call, in forward and in backward.
struct AttentionCall {
  View q, k, v;
  AttentionMask mask;
  AttentionParams params;
  const FirstQueries& first_queries;
};

/// If the call continues the results over other keys, gives `in` a copy of their denominators, and keeps the copy
/// until the kernel is launched.
template <class T>
class EarlierDenominators {
 public:
  template <class In>
  EarlierDenominators(In& in, const View& denominator) : copy_(count_of(in)) {
    if constexpr (In::kSparse) {
      if (copy_.data() == nullptr) return;
      check(cudaMemcpyAsync(copy_.data(), data<const T>(denominator), static_cast<size_t>(count_of(in)) * sizeof(T),
                            cudaMemcpyDeviceToDevice, stream()),
            "a copy of denominators");
      in.earlier_denominators = copy_.data();
    }
  }

 private:
  template <class In>
  static int64_t count_of(const In& in) {
    if constexpr (In::kSparse) return in.accumulate ? in.batch * in.heads * in.queries : 0;
    return 0;
  }

  Scratch<T> copy_;
};

template <template <class, class> class Inputs>
void launch_attention(const AttentionCall& call, const View& o, const View& denominator) {
  const bool done = dispatch_mma(call.q, [&](auto width, auto zero) {
    using E = decltype(zero);
    using In = Inputs<float, E>;
    In in(call.q, call.k, call.v, call.mask, call.params, call.first_queries);
    const EarlierDenominators<float> earlier(in, denominator);
    const HeadTiles tiles{0, in.batch * in.heads, 0, in.query_tiles()};
    launch(attend_mma<decltype(width)::value, E, NoInterChunk, In>, tiles.count(), kMmaThreads, in, HeadsView<E>(o),
           data<float>(denominator), tiles, NoInterChunk());
  });
  if (done) return;
  dispatch_products(call.q.dtype, [&](auto computed, auto shared, auto element) {
    using T = decltype(computed);
    using S = decltype(shared);
    using E = decltype(element);
    using In = Inputs<T, E>;
    In in(call.q, call.k, call.v, call.mask, call.params, call.first_queries);
    const EarlierDenominators<T> earlier(in, denominator);
    const int64_t tiles = in.query_tiles(), column_tiles = column_tiles_of<T>(in.width);
    launch(attend<T, S, E, In>, in.batch * in.heads * tiles * column_tiles, kThreads, in, HeadsView<E>(o),
           data<T>(denominator), tiles, column_tiles);
  });
}

template <template <class, class> class Inputs>
void launch_attention_backward(const AttentionCall& call, const View& dq, const View& dk, const View& dv,
                               const View& d_o, const View& o, const View& denominator) {
  const int64_t heads = call.q.shape[0] * call.q.shape[1];
  const bool done = dispatch_mma(call.q, [&](auto width, auto zero) {
    using E = decltype(zero);
    using In = Inputs<float, E>;
    const In in(call.q, call.k, call.v, call.mask, call.params, call.first_queries);
    const Scratch<float> delta(heads * in.queries);
    const auto from = with_deltas(in, d_o, o, denominator, delta);
    const HeadTiles key_tiles{0, heads, 0, in.key_tiles()}, query_tiles{0, heads, 0, in.query_tiles()};
    launch(attend_backward_keys_mma<decltype(width)::value, E, NoInterChunk, In>, key_tiles.count(), kMmaThreads, in,
           from, HeadsView<E>(dk), HeadsView<E>(dv), key_tiles, NoInterChunk());
    launch(attend_backward_queries_mma<decltype(width)::value, E, NoInterChunk, In>, query_tiles.count(), kMmaThreads,
           in, from, HeadsView<E>(dq), query_tiles, NoInterChunk());
  });
  if (done) return;
  dispatch_products(call.q.dtype, [&](auto computed, auto shared, auto element) {
    using T = decltype(computed);
    using S = decltype(shared);
    using E = decltype(element);
    using In = Inputs<T, E>;
    const In in(call.q, call.k, call.v, call.mask, call.params, call.first_queries);
    const int64_t column_tiles = column_tiles_of<T>(in.width);
    const Scratch<T> delta(heads * in.queries);
    const auto from = with_deltas(in, d_o, o, denominator, delta);
    launch(attend_backward_keys<T, S, E, In>, heads * in.key_tiles() * column_tiles, kThreads, in, from,
           HeadsView<E>(dk), HeadsView<E>(dv), in.key_tiles(), column_tiles);
    launch(attend_backward_queries<T, S, E, In>, heads * in.query_tiles() * column_tiles, kThreads, in, from,
           HeadsView<E>(dq), in.query_tiles(), column_tiles);
  });
}

// Defined in sparse_attention.cu.
void sparse_attention(const AttentionCall& call, const View& o, const View& denominator);
void sparse_attention_backward(const AttentionCall& call, const View& dq, const View& dk, const View& dv,
                               const View& d_o, const View& o, const View& denominator);

}  // namespace linnet::cuda
