#pragma once

#include <vector>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/layers/short_conv.h>

/// Additive attention (Wu et al. 2021, "Fastformer: Additive Attention Can Be All You Need"): time and memory
/// linear in the tokens. Shapes: B batch, H heads, N tokens, D numbers per head.

namespace linnet {

/// Which tokens attention_pool sums.
struct AttentionPoolOptions {
  /// Pools each token's own prefix, in one stable pass, instead of all tokens at once.
  bool causal = false;
  /// Bool [B, N]: false where a token is padding. Undefined: none is.
  Tensor padding_mask = {};
};

/// sum_j softmax_j(scores_j) x_j: over all tokens j, [B, H, 1, D], or when causal over j ≤ i for every i, [B,
/// H, N, D]. scores [B, H, N], x [B, H, N, D], of one floating dtype. No tokens, or none that is no padding,
/// gives 0 and no gradient; scores of −∞ count as padding. What padding holds changes no bit, nor does, when
/// causal, what comes later. Fused: differentiable once. Throws ShapeError, DTypeError and DeviceError.
Tensor attention_pool(const Tensor& scores, const Tensor& x, const AttentionPoolOptions& options = {},
                      Where where = {});

/// How a global vector g meets a token's x.
enum class Interaction {
  product,  ///< g ∘ x, the paper's choice
  add,      ///< g + x
  concat,   ///< [g; x] · projection
};

/// What sums one column up, and joins the sum to the next column.
struct AdditiveStage {
  /// w of the logits w·x_i/√D (eqs. 3 and 5): [H, D], each head from its own numbers, or "full", [H, H·D], each
  /// head from those of all heads, as in the authors' code.
  Tensor weight;
  /// [H], added to w·x_i; undefined for none. (It cancels in the softmax; the authors' weights have one.)
  Tensor bias = {};
  /// For Interaction::concat: [H, 2·D, D], from [g; x] to what the next stage sees.
  Tensor projection = {};
};

/// How additive_attention weighs and joins.
struct AdditiveAttentionOptions {
  Interaction interaction = Interaction::product;
  /// Every token uses the global vectors of its own prefix (ours; the paper's sums are over all tokens).
  bool causal = false;
  /// Bool [B, N]: false where a token is padding: it is in no sum. Undefined: none is.
  Tensor padding_mask = {};
  /// Of the weights α and β, each of a token and head, after normalisation, in [0, 1]; those that stay are
  /// scaled by 1/(1 − dropout). No mask is stored: backward draws it again.
  double dropout = 0;
  /// Takes one draw for each stage when there is dropout.
  Generator* generator = nullptr;
};

/// Fastformer's attention per head, eqs. 3–6, up to u_i; the linear map of section 3.1 and its sum with the
/// queries are left to the caller. `columns` are the queries, keys and values, each [B, H, N, D]; or any n ≥ 2
/// of them, where each column is summed up to a global vector that meets the next one. There are n − 1 stages,
/// all tensors of one floating dtype; or columns of bfloat16 beside stages of float32, which is then computed in, for
/// a result of bfloat16. Returns the last column's products, u [B, H, N, D], which lie in memory as [B, N, H, D], so
/// that joining the heads is free.
///
/// Where no token is left to sum, u is 0 and gives no gradient. What a padded token holds changes no bit but of
/// its own u, nor does, when causal, what comes later. Three columns with weights per head (without bias) and
/// product or add run as one fused op; all else is composed of others. Pass one tensor as queries and values to
/// share them: the fused op then makes one gradient for both. Differentiable once. Throws ShapeError,
/// DTypeError, DeviceError, and ValueError for too few columns or stages and for a dropout out of range or
/// without a generator.
Tensor additive_attention(const std::vector<Tensor>& columns, const std::vector<AdditiveStage>& stages,
                          const AdditiveAttentionOptions& options = {}, Where where = {});

/// The weights by which additive_attention sums its columns, one tensor a stage: α and β of eqs. 3 and 5 for three
/// columns. [B, H, 1, N], one row that serves all tokens; when causal [B, H, N, N], a row for each. Rows sum to 1, or
/// to 0 where no token is left. To look at: when causal, memory grows with N². No dropout. Differentiable once.
/// Of columns of bfloat16 they are float32. Throws as additive_attention does.
std::vector<Tensor> additive_attention_weights(const std::vector<Tensor>& columns,
                                               const std::vector<AdditiveStage>& stages,
                                               const AdditiveAttentionOptions& options = {}, Where where = {});

}  // namespace linnet
