#pragma once

#include <linnet/core/tensor.h>

namespace linnet {

/// Which tokens short_conv sees.
struct ShortConvOptions {
  /// Tap t of W is token i − (W − 1) + t; otherwise i − ⌊(W − 1)/2⌋ + t, so that an even width sees one more
  /// token ahead than behind (PyTorch's padding "same").
  bool causal = false;
  /// Bool [B, N]: false where a token is padding, which counts as 0 in the sums of others and its own.
  Tensor padding_mask = {};
};

/// x_i + sum_t weight_t ∘ x at tap t: a depthwise convolution over the tokens and its sum with x; tokens before
/// the first and after the last are 0. x [B, N, C], weight [C, W], of one floating dtype, or bfloat16 beside float32.
/// Fused: differentiable once. Throws ShapeError, DTypeError and DeviceError.
Tensor short_conv(const Tensor& x, const Tensor& weight, const ShortConvOptions& options = {}, Where where = {});

}  // namespace linnet
