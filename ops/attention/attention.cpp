#include <linnet/ops/attention/attention.h>

#include <cmath>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/fused_attention.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/layers/softmax.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet {
namespace {

double scale_of(const SoftmaxAttentionOptions& options, int64_t width) {
  const double scale = options.scale.value_or(width > 0 ? 1 / std::sqrt(static_cast<double>(width)) : 1);
  if (!std::isfinite(scale)) throw ValueError(fmt::format("scale is {}; it must be finite", scale));
  return scale;
}

}  // namespace

Tensor softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxAttentionOptions& options,
                         Where where) {
  Call call("softmax_attention", where);
  detail::check_heads(q, "q");
  const double scale = scale_of(options, q.shape()[3]);
  detail::check_dropout(options.dropout, options.generator);
  AttentionParams params{};
  params.kind.softmax = true;
  params.scale = scale;
  params.causal = options.causal;
  params.dropout = options.dropout;
  if (options.dropout > 0) params.dropout_rng = options.generator->next();
  return detail::quadratic_attention(q, k, v, options.padding_mask, params);
}

Tensor softmax_attention_weights(const Tensor& q, const Tensor& k, const SoftmaxAttentionOptions& options,
                                 Where where) {
  Call call("softmax_attention_weights", where);
  detail::check_qkv(q, k, k, options.padding_mask);
  const Tensor scores =
      matmul(detail::in_computed(q), transpose(detail::in_computed(k))) * scale_of(options, q.shape()[3]);
  return detail::masked_softmax(  // [Vaswani eq.1]
      scores, detail::unseen(q.size(2), k.size(2), options.padding_mask, options.causal, q.device()));
}

}  // namespace linnet
