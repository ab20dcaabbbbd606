#include <linnet/ops/attention/attention.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/fused_attention.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/layers/softmax.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet {

Tensor softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxAttentionOptions& options,
                         Where where) {
  Call call("softmax_attention", where);
  detail::check_qkv(q, k, v, options.padding_mask);
  const double scale = detail::attention_scale(options.scale, q.shape()[3]);
  detail::check_dropout(options.dropout, options.generator);
  AttentionParams params{};
  params.kind.softmax = true;
  params.scale = scale;
  params.causal = options.causal;
  params.dropout = options.dropout;
  detail::KeySet keys{.k = k, .v = v, .padding_mask = options.padding_mask};
  if (options.dropout > 0) keys.dropout_rng = options.generator->next();
  return detail::quadratic_attention(q, {keys}, params);
}

Tensor softmax_attention_weights(const Tensor& q, const Tensor& k, const SoftmaxAttentionOptions& options,
                                 Where where) {
  Call call("softmax_attention_weights", where);
  detail::check_qkv(q, k, k, options.padding_mask);
  const Tensor scores = matmul(detail::in_computed(q), transpose(detail::in_computed(k))) *
                        detail::attention_scale(options.scale, q.shape()[3]);
  return detail::masked_softmax(  // [Vaswani eq.1]
      scores, detail::unseen(q.size(2), k.size(2), options.padding_mask, options.causal, q.device()));
}

}  // namespace linnet
