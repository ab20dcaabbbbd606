#include <linnet/ops/attention/attention.h>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/fused_attention.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet {
namespace {

bool is_bool(const Tensor& attn_mask) { return attn_mask.defined() && attn_mask.dtype() == DType::boolean; }

void check_attn_mask(const Tensor& mask, const Tensor& q, const Tensor& k) {
  if (!mask.defined()) return;
  const Shape scores{q.size(0), q.size(1), q.size(2), k.size(2)};
  bool fits = mask.rank() <= 4;
  for (int dim = 1; fits && dim <= mask.rank(); ++dim)
    fits = mask.size(-dim) == 1 || mask.size(-dim) == scores[4 - dim];
  if (!fits) {
    throw ShapeError(fmt::format("attn_mask{} does not broadcast to [batch, heads, queries, keys], {}",
                                 to_string(mask.shape()), to_string(scores)));
  }
  if (!is_bool(mask) && mask.dtype() != q.dtype()) {
    throw DTypeError(fmt::format(
        "attn_mask is {}; it must be bool, false where a query does not see a key, or {}, added to the scores",
        name_of(mask.dtype()), name_of(q.dtype())));
  }
  if (mask.device() != q.device()) {
    throw DeviceError(fmt::format("attn_mask is on {}, q on {}; move one with to(Device)", name_of(mask.device()),
                                  name_of(q.device())));
  }
}

/// All weights, [B, H, N, M].
Tensor weights_of(const Tensor& q, const Tensor& k, const SoftmaxAttentionOptions& options) {
  const Tensor& mask = options.attn_mask;
  Tensor unseen = detail::unseen(q.size(2), k.size(2), options.padding_mask, options.causal, q.device());
  if (is_bool(mask)) unseen = detail::either(unseen, logical_not(mask));
  Tensor scores = detail::attention_scores(q, k, options.scale);
  if (mask.defined() && !is_bool(mask)) scores = scores + detail::in_computed(mask);
  return detail::masked_softmax(scores, unseen);  // [Vaswani eq.1]
}

/// softmax_attention, computed from the whole matrix of its weights.
Tensor composed_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxAttentionOptions& options) {
  detail::check_dtypes(q, k, v);
  Tensor weights = weights_of(q, detail::without_padding(k, options.padding_mask), options);
  if (options.dropout > 0) weights = dropout(weights, options.dropout, *options.generator);
  const Tensor values = detail::in_computed(detail::without_padding(v, options.padding_mask));
  const Tensor o = matmul(weights, values).to(v.dtype());
  return o.transpose(1, 2).contiguous().transpose(1, 2);  // in memory [B, N, H, D]
}

}  // namespace

Tensor softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v, const SoftmaxAttentionOptions& options,
                         Where where) {
  Call call("softmax_attention", where);
  detail::check_qkv(q, k, v, options.padding_mask);
  detail::check_dropout(options.dropout, options.generator);
  check_attn_mask(options.attn_mask, q, k);
  if (options.attn_mask.defined()) return composed_attention(q, k, v, options);
  return detail::softmax_over({detail::QueryRows::all(q, {{.k = k, .v = v, .padding_mask = options.padding_mask}})},
                              options);
}

Tensor softmax_attention_weights(const Tensor& q, const Tensor& k, const SoftmaxAttentionOptions& options,
                                 Where where) {
  Call call("softmax_attention_weights", where);
  detail::check_qkv(q, k, k, options.padding_mask);
  detail::check_dtypes(q, k, k);
  check_attn_mask(options.attn_mask, q, k);
  return weights_of(q, k, options);
}

}  // namespace linnet
