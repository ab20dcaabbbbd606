#include <linnet/ops/attention/attention.h>

#include <linnet/core/error.h>
#include <linnet/ops/detail/fused_attention.h>
#include <linnet/ops/detail/heads.h>

namespace linnet {

Tensor softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxAttentionOptions& options,
                         Where where) {
  Call call("softmax_attention", where);
  detail::check_qkv(q, k, v, options.padding_mask);
  detail::check_dropout(options.dropout, options.generator);
  return detail::softmax_over({detail::QueryRows::all(q, {{.k = k, .v = v, .padding_mask = options.padding_mask}})},
                              options);
}

Tensor softmax_attention_weights(const Tensor& q, const Tensor& k, const SoftmaxAttentionOptions& options,
                                 Where where) {
  Call call("softmax_attention_weights", where);
  detail::check_qkv(q, k, k, options.padding_mask);
  return detail::softmax_weights(  // [Vaswani eq.1]
      q, k, options.scale, detail::unseen(q.size(2), k.size(2), options.padding_mask, options.causal, q.device()));
}

}  // namespace linnet
