#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/detail/fused_attention.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>

/// The two attentions with kernels of their own: weight by weight (softmax and Fastmax), and factorised Fastmax. As
/// ops they differ only in the kernels.

namespace linnet::detail {
namespace {

template <auto kBackward, class Params>
Grads fused_attention_backward(const char* name, const Tensor& grad, const Tensor& o, const Tensor& denominator,
                               const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                               const Params& params) {
  Op op(name, Where{}, {grad, q, k, v});
  op.first_derivative_only(
      "its weights (softmax_attention_weights, fastmax_weights, linear_attention_weights) and matmul");
  const std::vector<Tensor> gradients = empty_gradients({q, k, v});
  const Tensor g = with_plain_rows(grad);
  (backend(q).*kBackward)(detail::view(gradients[0]), detail::view(gradients[1]), detail::view(gradients[2]),
                          detail::view(g), detail::view(o), detail::view(denominator), detail::view(q),
                          detail::view(k), detail::view(v), OptionalView(padding_mask).get(), params);
  return {gradients[0], gradients[1], gradients[2]};
}

/// Saves q, k, v, o and every row's denominator for backward, so memory is linear in the tokens.
template <auto kForward, auto kBackward, class Params>
Tensor fused_attention(const char* name, const char* backward_name, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor& padding_mask, const Params& params) {
  Op op(name, Where{}, {q, k, v});
  const DType dtype = op.floating_dtype();
  check_qkv(q, k, v, padding_mask);
  const Tensor queries = with_plain_rows(q), keys = with_plain_rows(k), values = with_plain_rows(v);
  Tensor o = empty_heads(q.shape(), dtype, q.device());
  const Tensor denominator =
      Tensor::empty({q.shape()[0], q.shape()[1], q.shape()[2]}, computed_in(dtype), q.device());
  (backend(q).*kForward)(detail::view(o), detail::view(denominator), detail::view(queries), detail::view(keys),
                         detail::view(values), OptionalView(padding_mask).get(), params);
  return op.record(o, [backward_name, o = op.save_output(o), denominator, q = op.save(queries), k = op.save(keys),
                       v = op.save(values), padding_mask = op.save(padding_mask), params](const Tensor& g) {
    return fused_attention_backward<kBackward>(backward_name, g, o(), denominator, q(), k(), v(), padding_mask(),
                                               params);
  });
}

}  // namespace

Tensor quadratic_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                           const AttentionParams& params) {
  return fused_attention<&Backend::attention, &Backend::attention_backward>("attention", "attention_backward", q, k,
                                                                            v, padding_mask, params);
}

Tensor fused_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                     const FastmaxParams& params) {
  return fused_attention<&Backend::fastmax, &Backend::fastmax_backward>("fastmax", "fastmax_backward", q, k, v,
                                                                        padding_mask, params);
}

}  // namespace linnet::detail
