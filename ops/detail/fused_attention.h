#pragma once

#include <linnet/core/tensor.h>

/// The attentions with kernels of their own.
///
/// Shapes: q [B, H, N, D], k and v [B, H, M, D]; `padding_mask` undefined or [B, M].
/// Dtypes: one floating dtype; `padding_mask` is bool.
/// Gradient: once (fused).
/// Throws: ShapeError, DTypeError, DeviceError.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// o_i = sum_j f(s_ij) v_j / sum_j f(s_ij) with s_ij = scale · q_i·k_j, over the keys that query i sees. It computes
/// softmax_attention and the quadratic form of Fastmax.
Tensor quadratic_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                           const AttentionParams& params);

/// The factorised form of Fastmax (Gerami et al. 2024, eqs. 24–35), for tensors that are not empty.
Tensor fused_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                     const FastmaxParams& params);

}  // namespace detail
}  // namespace linnet
