#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/detail/performer.h>

namespace linnet::detail {
namespace {

Grads fused_performer_backward(const Tensor& grad, const Tensor& o, const Tensor& denominators, const Tensor& q,
                               const Tensor& k, const Tensor& v, const Tensor& omega, const Tensor& padding_mask,
                               bool causal) {
  Op op("performer_attention_backward", Where{}, {grad, q, k, v});
  op.first_derivative_only("its weights (performer_attention_weights) and matmul");
  const std::vector<Tensor> gradients = empty_gradients({q, k, v});
  const Tensor g = with_plain_rows(grad);
  backend(q).performer_attention_backward(
      detail::view(gradients[0]), detail::view(gradients[1]), detail::view(gradients[2]), detail::view(g),
      detail::view(o), detail::view(denominators), detail::view(q), detail::view(k), detail::view(v),
      detail::view(omega), OptionalView(padding_mask).get(), causal);
  return {gradients[0], gradients[1], gradients[2]};
}

}  // namespace

/// Saves q, k, v, o and two numbers of every query for backward, so memory is linear in the tokens.
Tensor fused_performer(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                       const Tensor& padding_mask, bool causal) {
  Op op("performer_attention", Where{}, {q, k, v});
  const DType dtype = op.floating_dtype();
  const Tensor queries = with_plain_rows(q), keys = with_plain_rows(k), values = with_plain_rows(v);
  const Tensor matrix = dense(omega);
  Tensor o = empty_heads(q.shape(), dtype, q.device());
  const Tensor denominators = Tensor::empty({2, q.size(0), q.size(1), q.size(2)}, dtype, q.device());
  backend(q).performer_attention(detail::view(o), detail::view(denominators), detail::view(queries),
                                 detail::view(keys), detail::view(values), detail::view(matrix),
                                 OptionalView(padding_mask).get(), causal);
  return op.record(o, [o = op.save_output(o), denominators = op.save(denominators), q = op.save(queries),
                       k = op.save(keys), v = op.save(values), matrix = op.save(matrix),
                       padding_mask = op.save(padding_mask), causal](const Tensor& g) {
    return fused_performer_backward(g, o(), denominators(), q(), k(), v(), matrix(), padding_mask(), causal);
  });
}

}  // namespace linnet::detail
