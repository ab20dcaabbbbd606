#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/detail/additive_attention.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>

namespace linnet::detail {
namespace {

/// Whether a and b are one tensor. If queries and values are, backward adds their gradients in place, which saves a
/// tensor of that size.
bool same_tensor(const Tensor& a, const Tensor& b) { return a.requires_grad() && detail::node(a) == detail::node(b); }

/// The tensors of one call, in the layout that kernels take.
struct Inputs {
  Tensor q, k, v, w_q, w_k, padding_mask;
};

/// `params` with the views of the call's tensors.
AdditiveAttentionInputs kernel_inputs(const Inputs& in, const View* padding_mask, AdditiveAttentionInputs params) {
  params.q = detail::view(in.q);
  params.k = detail::view(in.k);
  params.v = detail::view(in.v);
  params.w_q = detail::view(in.w_q);
  params.w_k = detail::view(in.w_k);
  params.padding_mask = padding_mask;
  return params;
}

Grads additive_attention_backward(const Tensor& grad, const Tensor& pools, const Inputs& in, bool shared,
                                  const AdditiveAttentionInputs& params) {
  Op op("additive_attention_backward", Where{}, {grad, in.q, in.k, in.v, in.w_q, in.w_k});
  op.first_derivative_only("softmax and matmul");
  const auto like = [](const Tensor& x) { return empty_heads(x.shape(), x.dtype(), x.device()); };
  const Tensor g = with_plain_rows(grad), dq = like(in.q), dk = like(in.k), dv = shared ? Tensor() : like(in.v);
  const Tensor dw_q = Tensor::empty(in.w_q.shape(), in.w_q.dtype(), in.w_q.device());
  const Tensor dw_k = Tensor::empty(in.w_k.shape(), in.w_k.dtype(), in.w_k.device());
  const OptionalView values(dv), mask(in.padding_mask);
  backend(in.q).additive_attention_backward(
      {detail::view(dq), detail::view(dk), values.get(), detail::view(dw_q), detail::view(dw_k)}, detail::view(g),
      detail::view(pools), kernel_inputs(in, mask.get(), params));
  return {dq, dk, dv, dw_q, dw_k};
}

}  // namespace

Tensor fused_additive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w_q,
                                const Tensor& w_k, const AdditiveAttentionOptions& options) {
  Op op("additive_attention", Where{}, {q, k, v, w_q, w_k});
  const DType dtype = op.activation_dtype(3);
  AdditiveAttentionInputs params{};
  params.add = options.interaction == Interaction::add;
  params.causal = options.causal;
  params.dropout = options.dropout;
  for (RandomKey& key : params.dropout_rng) {
    if (options.dropout > 0) key = options.generator->next();
  }
  const Inputs in{with_plain_rows(q), with_plain_rows(k), with_plain_rows(v), w_q, w_k, options.padding_mask};
  const Shape& shape = q.shape();
  const Tensor pools =
      Tensor::empty({2, shape[0], backend(q).additive_attention_pools(shape[1], shape[2], shape[3], options.causal)},
                    computed_in(dtype), q.device());
  const Tensor u = empty_heads(shape, dtype, q.device());
  backend(q).additive_attention(detail::view(u), detail::view(pools),
                                kernel_inputs(in, OptionalView(in.padding_mask).get(), params));
  return op.record(u, [pools = op.save(pools), q = op.save(in.q), k = op.save(in.k), v = op.save(in.v),
                       w_q = op.save(w_q), w_k = op.save(w_k), padding_mask = op.save(in.padding_mask),
                       shared = same_tensor(q, v), params](const Tensor& g) {
    return additive_attention_backward(g, pools(), {q(), k(), v(), w_q(), w_k(), padding_mask()}, shared, params);
  });
}

}  // namespace linnet::detail
