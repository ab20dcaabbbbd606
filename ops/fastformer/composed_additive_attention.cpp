#include <cmath>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/additive_attention.h>
#include <linnet/ops/detail/heads.h>
#include <linnet/ops/matmul/matmul.h>

/// Eqs. 3–6 of Wu et al. 2021 as they are written, with every option.

namespace linnet::detail {
namespace {

/// A mask [B, N] in a shape that broadcasts to [B, H, N, D].
Tensor per_token(const Tensor& mask) { return mask.unsqueeze(1).unsqueeze(-1); }

/// (w·x_i + bias)/√D, [B, H, N]: the exponents of [Fastformer eq.3] and [Fastformer eq.5].
Tensor logits(const Tensor& x, const AdditiveStage& stage) {
  const Shape& size = x.shape();
  const double scale = size[3] > 0 ? 1 / std::sqrt(static_cast<double>(size[3])) : 1;
  Tensor products;
  if (stage.weight.shape()[1] == size[3]) {
    products = sum(mul(x, stage.weight.unsqueeze(1)), {-1});
  } else {
    const Tensor joined = x.transpose(1, 2).reshape({size[0], size[2], size[1] * size[3]});
    products = linear(joined, stage.weight).transpose(1, 2);
  }
  return mul(stage.bias.defined() ? add(products, stage.bias.unsqueeze(1)) : products, scale);
}

/// Each token times the factor that dropout gives its weight, 0 or 1/(1 − rate): Σ (α_i m_i) x_i = Σ α_i (m_i x_i).
Tensor dropped(const Tensor& x, const AdditiveAttentionOptions& options) {
  if (options.dropout == 0) return x;
  const Tensor weights = ones({x.shape()[0], x.shape()[1], x.shape()[2]}, x.dtype(), x.device());
  return mul(x, dropout(weights, options.dropout, *options.generator).unsqueeze(-1));
}

Tensor interact(const Tensor& global, const Tensor& x, const AdditiveStage& stage, Interaction interaction) {
  switch (interaction) {
    case Interaction::product: return mul(global, x);
    case Interaction::add: return add(global, x);
    case Interaction::concat: break;
  }
  // [g; x]·W = g·(upper half of W) + x·(lower half): without a copy of g for every token.
  const int64_t width = x.shape()[3];
  return add(matmul(global, stage.concat_weight.narrow(1, 0, width)),
             matmul(x, stage.concat_weight.narrow(1, width, width)));
}

/// x, with 0 for the NaN and infinities of its padding. A gradient of 0 times one of them would be NaN.
Tensor with_finite_padding(const Tensor& x, const Tensor& padding_mask) {
  if (!padding_mask.defined()) return x;
  return masked_fill(x, logical_and(per_token(logical_not(padding_mask)), logical_not(isfinite(x))), 0);
}

/// u, with 0 where no token is left to sum.
Tensor zero_where_empty(const Tensor& u, const Tensor& padding_mask, bool causal) {
  if (!padding_mask.defined()) return u;
  const Tensor empty = causal ? eq(cumsum(padding_mask, 1), 0) : logical_not(any(padding_mask, {1}, true));
  return masked_fill(u, per_token(empty), 0);
}

}  // namespace

Tensor composed_additive_attention(const std::vector<Tensor>& projections, const std::vector<AdditiveStage>& stages,
                                   const AdditiveAttentionOptions& options) {
  const AttentionPoolOptions pool{options.causal, options.padding_mask};
  Tensor token = without_padding(projections[0], options.padding_mask);
  for (size_t i = 0; i < stages.size(); ++i) {
    // α_i = softmax_i(w_q·q_i/√D), q = sum α_i q_i                         [Fastformer eq.3] [Fastformer eq.4]
    // β_i = softmax_i(w_k·p_i/√D), k = sum β_i p_i, in the second stage    [Fastformer eq.5] [Fastformer eq.6]
    const Tensor global = attention_pool(logits(token, stages[i]), dropped(token, options), pool);
    // p_i = q ∘ k_i, and u_i = k ∘ v_i with the last projection, whose padding is in no further sum but in one of
    // backward: the gradient of k is a sum over v_i
    const bool last = i + 1 == stages.size();
    const Tensor& x = projections[i + 1];
    const Tensor next =
        last ? with_finite_padding(x, options.padding_mask) : without_padding(x, options.padding_mask);
    token = interact(global, next, stages[i], options.interaction);
  }
  return zero_where_empty(token, options.padding_mask, options.causal);
}

std::vector<Tensor> composed_additive_weights(const std::vector<Tensor>& projections,
                                              const std::vector<AdditiveStage>& stages,
                                              const AdditiveAttentionOptions& options) {
  const int64_t tokens = projections[0].size(2);
  const Tensor hidden = unseen(tokens, tokens, options.padding_mask, options.causal, projections[0].device());
  std::vector<Tensor> weights;
  Tensor token = without_padding(projections[0], options.padding_mask);
  for (size_t i = 0; i < stages.size(); ++i) {
    const Tensor scores = logits(token, stages[i]).unsqueeze(2);  // [B, H, 1, N], the same for every row
    const int64_t rows = options.causal ? tokens : 1;
    // α, in the second stage β                                             [Fastformer eq.3] [Fastformer eq.5]
    weights.push_back(masked_softmax(scores.expand({scores.size(0), scores.size(1), rows, tokens}), hidden));
    if (i + 1 == stages.size()) break;
    const Tensor next = without_padding(projections[i + 1], options.padding_mask);
    token = interact(matmul(weights.back(), token), next, stages[i], options.interaction);
  }
  return weights;
}

}  // namespace linnet::detail
