#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/fastformer/fastformer.h>

namespace linnet {
namespace {

using detail::empty_heads;
using detail::with_plain_rows;

/// The state that forward keeps for backward: m and z of every softmax.
struct PoolState {
  Tensor maximum, total;
};

Grads attention_pool_backward(const Tensor& grad, const Tensor& out, const PoolState& state, const Tensor& scores,
                              const Tensor& x, const Tensor& padding_mask, bool causal) {
  Op op("attention_pool_backward", Where{}, {grad, scores, x});
  op.first_derivative_only("softmax and matmul");
  Tensor dscores = Tensor::empty(scores.shape(), scores.dtype(), scores.device());
  Tensor dx = empty_heads(x.shape(), x.dtype(), x.device());
  const Tensor g = with_plain_rows(grad);
  backend(x).attention_pool_backward(detail::view(dscores), detail::view(dx), detail::view(g), detail::view(out),
                                     detail::view(state.maximum), detail::view(state.total), detail::view(scores),
                                     detail::view(x), detail::OptionalView(padding_mask).get(), causal);
  return {dscores, dx};
}

}  // namespace

Tensor attention_pool(const Tensor& scores, const Tensor& x, const AttentionPoolOptions& options, Where where) {
  Op op("attention_pool", where, {scores, x});
  const DType dtype = op.floating_dtype();
  detail::check_heads(x, "x");
  const Shape& shape = x.shape();
  if (!(scores.shape() == Shape{shape[0], shape[1], shape[2]})) {
    throw ShapeError(fmt::format("scores{} do not fit x{}: they must be [batch, heads, tokens], one for each token",
                                 to_string(scores.shape()), to_string(shape)));
  }
  detail::check_padding_mask(options.padding_mask, x, "x");

  const Tensor tokens = with_plain_rows(x);
  const int64_t results = options.causal ? shape[2] : 1;
  Tensor out = empty_heads({shape[0], shape[1], results, shape[3]}, dtype, x.device());
  const PoolState state{Tensor::empty({shape[0], shape[1], results}, dtype, x.device()),
                        Tensor::empty({shape[0], shape[1], results}, dtype, x.device())};
  backend(x).attention_pool(detail::view(out), detail::view(state.maximum), detail::view(state.total),
                            detail::view(scores), detail::view(tokens),
                            detail::OptionalView(options.padding_mask).get(), options.causal);
  return op.record(out, [out = op.save_output(out), maximum = op.save(state.maximum), total = op.save(state.total),
                         scores = op.save(scores), x = op.save(tokens), padding_mask = op.save(options.padding_mask),
                         causal = options.causal](const Tensor& g) {
    return attention_pool_backward(g, out(), {maximum(), total()}, scores(), x(), padding_mask(), causal);
  });
}

}  // namespace linnet
