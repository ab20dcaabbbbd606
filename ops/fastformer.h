#pragma once

#include <linnet/core/tensor.h>

/// Additive attention (Wu et al. 2021, "Fastformer: Additive Attention Can Be All You Need"): time and memory
/// linear in the tokens.

namespace linnet {

struct AdditivePoolOptions {
  /// Pools each token's own prefix, in one stable pass, instead of all tokens at once.
  bool causal = false;
  /// Bool [B, N]: false where a token is padding. Undefined: none is.
  Tensor keep = {};
};

/// sum_j softmax_j(scores_j) x_j: over all tokens j, [B, H, 1, D], or when causal over j ≤ i for every i, [B,
/// H, N, D]. scores [B, H, N], x [B, H, N, D], of one floating dtype. No tokens, or none that is no padding,
/// gives 0 and no gradient; scores of −∞ count as padding. What padding holds changes no bit, nor does, when
/// causal, what comes later. Fused: differentiable once. Throws ShapeError, DTypeError and DeviceError.
Tensor additive_pool(const Tensor& scores, const Tensor& x, const AdditivePoolOptions& options = {},
                     Where where = {});

/// How a global vector meets a token's.
enum class Interaction { product, add };

struct AdditiveAttentionOptions {
  Interaction interaction = Interaction::product;
  /// Every token uses the global query and key of its own prefix (ours; the paper's sums are over all
  /// tokens).
  bool causal = false;
  /// Bool [B, N]: false where a token is padding: it is in no sum. Undefined: none is.
  Tensor keep = {};
};

/// Fastformer's attention per head, eqs. 3–6, up to u_i; the linear map of eq. 6's text and its sum with the
/// queries are left to the caller. q, k, v [B, H, N, D], w_q and w_k [H, D], of one floating dtype; returns u
/// [B, H, N, D], 0 where nothing is left to sum. Differentiable once. Throws ShapeError, DTypeError and
/// DeviceError.
Tensor additive_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w_q, const Tensor& w_k,
                          const AdditiveAttentionOptions& options = {}, Where where = {});

}  // namespace linnet
