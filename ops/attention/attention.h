#pragma once

#include <optional>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

namespace linnet {

/// Options of softmax_attention.
struct SoftmaxAttentionOptions {
  /// Query i sees keys up to i + (M − N), which is its own prefix when M = N. So the last query sees all keys, as the
  /// generation of text needs. With PyTorch's is_causal, query i sees keys up to i even if M ≠ N.
  bool causal = false;
  /// The factor of q·k; 1/√D when not given.
  std::optional<double> scale = {};
  /// Bool [B, M]: false where a key is padding. Undefined: no padding. PyTorch's key_padding_mask is the opposite.
  Tensor padding_mask = {};
  /// PyTorch's attn_mask, of a shape that broadcasts to [B, H, N, M]. A bool mask is false where a query does not see
  /// a key. A floating one, of q's dtype, is added to scale · q·k, such as a bias for relative positions, and gets a
  /// gradient. With `attn_mask` all weights are in memory.
  Tensor attn_mask = {};
  /// The rate, in [0, 1], at which weights are dropped after normalisation. Kept weights are scaled by
  /// 1/(1 − dropout). No mask is stored: backward draws it again.
  double dropout = 0;
  /// Draws the dropout mask: one draw when there is dropout, none otherwise.
  Generator* generator = nullptr;
};

/// o_i = sum_j softmax_j(scale · q_i·k_j) v_j, or softmax_j(scale · q_i·k_j + attn_mask_ij).
///
/// A query that sees no key gives 0 and has no gradient. The contents of padded keys change no bit of the result.
/// When causal, neither do later tokens; with `attn_mask` their weights are 0, but 0 times a NaN or an infinity among
/// their values is NaN. Strided inputs are used in place where their last dim has unit stride.
///
/// Backward computes the weights again from the scores and, for each query, the largest score plus the logarithm of
/// the sum as one number. It rounds that to the dtype, or for bfloat16 to float32, so weights in gradients have a
/// relative error of about |largest score| · 2⁻²⁴ for float32. Where scores exceed 10⁴, use float64, or `attn_mask`,
/// which keeps the weights.
///
/// Shapes: q [B, H, N, D], k and v [B, H, M, D] → [B, H, N, D], in memory [B, N, H, D], so that merging the heads is
/// free.
/// Dtypes: one floating dtype. For bfloat16, scores, weights and sums are float32, and the result is bfloat16.
/// Gradient: once (fused); any number of times with attn_mask.
/// Cost: time O(B·H·N·M·D), half of that when causal; backward takes about 2.5 times as long. Memory apart from the
/// result is linear in the tokens, and O(B·H·N·M) with attn_mask.
/// Throws: ShapeError, DTypeError, DeviceError; ValueError for a scale or dropout out of range.
/// Source: Vaswani et al. 2017, eq. 1.
Tensor softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                         const SoftmaxAttentionOptions& options = {}, Where where = {});

/// The matrix of the weights softmax_j(scale · q_i·k_j) with which softmax_attention sums the values. Rows sum to 1,
/// or to 0 where a query sees no key. For inspection: dropout is not applied.
///
/// Shapes: q [B, H, N, D], k [B, H, M, D] → [B, H, N, M].
/// Dtypes: one floating dtype; float32 for bfloat16.
/// Gradient: any number of times.
/// Cost: time O(B·H·N·M·D), memory O(B·H·N·M).
/// Throws: ShapeError, DTypeError; ValueError for a scale that is not finite.
/// Source: Vaswani et al. 2017, eq. 1.
Tensor softmax_attention_weights(const Tensor& q, const Tensor& k, const SoftmaxAttentionOptions& options = {},
                                 Where where = {});

}  // namespace linnet
