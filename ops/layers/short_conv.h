#pragma once

#include <linnet/core/tensor.h>

namespace linnet {

/// Options of short_conv: which tokens it sees.
struct ShortConvOptions {
  /// When causal, tap t of W is token i − (W − 1) + t. Otherwise it is token i − ⌊(W − 1)/2⌋ + t, so that an even
  /// width sees one more token ahead than behind (PyTorch's padding "same").
  bool causal = false;
  /// Bool [B, N]: false where a token is padding, which counts as 0 in every sum, its own included.
  Tensor padding_mask = {};
};

/// x_i + sum_t weight_t ∘ x at tap t: the sum of x and a depthwise convolution over the tokens. Tokens before the
/// first and after the last are 0.
///
/// Shapes: x [B, N, C], weight [C, W] → [B, N, C].
/// Dtypes: one floating dtype; for bfloat16 x, weight is float32.
/// Gradient: once (fused).
/// Throws: ShapeError, DTypeError, DeviceError.
Tensor short_conv(const Tensor& x, const Tensor& weight, const ShortConvOptions& options = {}, Where where = {});

}  // namespace linnet
