#pragma once

#include <linnet/core/tensor.h>

/// The attentions that have kernels of their own. q [B, H, N, D], k and v [B, H, M, D] of one floating dtype;
/// `padding_mask` undefined or bool [B, M]. They throw ShapeError, DTypeError and DeviceError, and are differentiable
/// once.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// o_i = sum_j f(s_ij) v_j / sum_j f(s_ij) with s_ij = scale · q_i·k_j, over the keys that query i sees: the op under
/// softmax_attention and the quadratic form of Fastmax.
Tensor quadratic_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                           const AttentionParams& options);

/// Fastmax in its factorised form (Gerami et al. 2024, eqs. 24–35), of tensors that are not empty.
Tensor fused_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                     const FastmaxParams& params);

}  // namespace detail
}  // namespace linnet
