#pragma once

#include <linnet/core/tensor.h>

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// o_i = sum_j f(s_ij) v_j / sum_j f(s_ij) with s_ij = scale · q_i·k_j, over the keys that query i sees: the op under
/// softmax_attention and the quadratic form of Fastmax. q [B, H, N, D], k and v [B, H, M, D] of one floating dtype;
/// `keep` undefined or bool [B, M]. Throws ShapeError, DTypeError and DeviceError. Differentiable once.
Tensor quadratic_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep,
                           const AttentionOptions& options);

}  // namespace detail
}  // namespace linnet
