#pragma once

#include <optional>

#include <linnet/core/random/generator.h>
#include <linnet/core/tensor.h>

namespace linnet {

/// How softmax_attention weighs.
struct SoftmaxAttentionOptions {
  /// Query i sees keys up to i + (M − N): its own prefix when there are as many keys as queries.
  bool causal = false;
  /// 1/√D when not given.
  std::optional<double> scale = {};
  /// Bool [B, M]: false where a key is padding. Undefined: none is.
  Tensor padding_mask = {};
  /// Of the weights after normalisation, in [0, 1]; the weights that stay are scaled by 1/(1 − dropout). No
  /// mask is stored: backward draws it again.
  double dropout = 0;
  /// Takes one draw when there is dropout.
  Generator* generator = nullptr;
};

/// o_i = sum_j softmax_j(scale · q_i·k_j) v_j (Vaswani et al. 2017, eq. 1). q [B, H, N, D], k and v [B, H, M,
/// D], of one floating dtype; the result [B, H, N, D] lies in memory as [B, N, H, D], so that joining the
/// heads is free. Strided inputs are used in place where their last dim has unit stride.
///
/// A query that sees no key gives 0 and no gradient; what a padded key holds changes no bit, nor does, when
/// causal, what comes later. Time grows with B·H·N·M·D, half of that when causal, and backward takes about 2.5 times
/// as much; memory beside the result is linear in the tokens. Fused: differentiable once. Of q, k and v of bfloat16,
/// scores, weights and their sums are float32, and the result bfloat16. Throws ShapeError, DTypeError, DeviceError,
/// and ValueError for a scale or dropout out of range.
Tensor softmax_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                         const SoftmaxAttentionOptions& options = {}, Where where = {});

/// The weights softmax_j(scale · q_i·k_j) that softmax_attention gives the values, as a matrix: [B, H, N, M], whose
/// rows sum to 1, or to 0 where a query sees no key. To look at: memory grows with N·M. No dropout. Differentiable
/// any number of times. Of bfloat16 they are float32. Throws ShapeError, DTypeError, and ValueError for a bad scale.
Tensor softmax_attention_weights(const Tensor& q, const Tensor& k, const SoftmaxAttentionOptions& options = {},
                                 Where where = {});

}  // namespace linnet
