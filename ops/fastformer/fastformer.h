#pragma once

#include <vector>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/layers/short_conv.h>

/// Additive attention, whose time and memory are linear in the tokens. In shapes, B is the batch, H the heads, N the
/// tokens and D the numbers per head.
///
/// The contents of a padded token change no bit of another token's result. When causal, neither do later tokens.
///
/// Source: Wu et al. 2021, "Fastformer: Additive Attention Can Be All You Need".

namespace linnet {

/// Options of attention_pool: which tokens it sums.
struct AttentionPoolOptions {
  /// Each token gets the pool of its own prefix, in one stable pass, instead of one pool of all tokens.
  bool causal = false;
  /// Bool [B, N]: false where a token is padding. Undefined: no padding.
  Tensor padding_mask = {};
};

/// sum_j softmax_j(scores_j) x_j over all tokens j, or over j ≤ i for every token i when causal.
///
/// A score of −∞ counts as padding. Where every token is padding, or there is none, the result is 0 and has no
/// gradient.
///
/// Shapes: scores [B, H, N], x [B, H, N, D] → [B, H, 1, D], or [B, H, N, D] when causal.
/// Dtypes: one floating dtype.
/// Gradient: once (fused).
/// Cost: O(B·H·N·D), one pass over x forward.
/// Throws: ShapeError, DTypeError, DeviceError.
Tensor attention_pool(const Tensor& scores, const Tensor& x, const AttentionPoolOptions& options = {},
                      Where where = {});

/// How a global vector g is combined with a token's x.
enum class Interaction {
  product,  ///< g ∘ x, as in the paper
  add,      ///< g + x
  concat,   ///< [g; x] · concat_weight
};

/// The parameters of one stage, which sums a projection to a global vector and combines that vector with the next
/// projection.
struct AdditiveStage {
  /// w of the logits w·x_i/√D (eqs. 3 and 5). [H, D]: each head's logits come from its own numbers. [H, H·D]
  /// ("full"): they come from the numbers of all heads, as in the authors' code.
  Tensor weight;
  /// [H], added to w·x_i; undefined for none. It cancels in the softmax, but the authors' weights have one.
  Tensor bias = {};
  /// [H, 2·D, D], from [g; x] to the input of the next stage. Interaction::concat needs it.
  Tensor concat_weight = {};
};

/// Options of additive_attention.
struct AdditiveAttentionOptions {
  Interaction interaction = Interaction::product;  ///< how queries, keys and values are combined
  /// Every token uses the global vectors of its own prefix. The causal form is linnet's own: the paper sums over all
  /// tokens.
  bool causal = false;
  /// Bool [B, N]: false where a token is padding, which no sum contains. Undefined: no padding.
  Tensor padding_mask = {};
  /// The rate, in [0, 1], at which weights α and β are dropped after normalisation, separately for each token and
  /// head. Kept weights are scaled by 1/(1 − dropout). No mask is stored: backward draws it again.
  double dropout = 0;
  /// Takes one draw for each stage when there is dropout.
  Generator* generator = nullptr;
};

/// Fastformer's attention per head up to u_i. The caller adds the linear map of section 3.1 and the queries.
///
/// `projections` are the queries, keys and values, or any n ≥ 2 projections of the tokens with n − 1 stages. Stage s
/// sums projection s to a global vector and combines it with projection s + 1; the last combination is u. Where no
/// token is left to sum, u is 0 and has no gradient.
///
/// Three projections with logits per head, no bias, and product or add run as one fused op. Pass one tensor as
/// queries and values to share them; the fused op then makes one gradient for both.
///
/// Shapes: projections [B, H, N, D] → u [B, H, N, D], in memory [B, N, H, D], so that merging the heads is free.
/// Dtypes: one floating dtype, or bfloat16 projections with float32 stages for a bfloat16 u.
/// Gradient: once.
/// Cost: O(B·H·N·D) for each stage.
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for too few projections or stages, and for a dropout that
/// is out of range or has no generator.
/// Source: Wu et al. 2021, eqs. 3–6.
Tensor additive_attention(const std::vector<Tensor>& projections, const std::vector<AdditiveStage>& stages,
                          const AdditiveAttentionOptions& options = {}, Where where = {});

/// The weights with which additive_attention sums its projections, one tensor for each stage: α and β for three
/// projections. Rows sum to 1, or to 0 where no token is left. For inspection: dropout is not applied.
///
/// Shapes: [B, H, 1, N], one row for all tokens; [B, H, N, N], one for each, when causal.
/// Dtypes: the projections' dtype; float32 for bfloat16.
/// Gradient: once.
/// Cost: memory grows with N, with N² when causal.
/// Throws: as additive_attention.
/// Source: Wu et al. 2021, eqs. 3 and 5.
std::vector<Tensor> additive_attention_weights(const std::vector<Tensor>& projections,
                                               const std::vector<AdditiveStage>& stages,
                                               const AdditiveAttentionOptions& options = {}, Where where = {});

}  // namespace linnet
