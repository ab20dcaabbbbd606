#pragma once

#include <linnet/core/tensor.h>

/// The forms of performer_attention, with checked arguments.
///
/// Shapes: q [B, H, N, D], k and v [B, H, M, D], `omega` [m, D]; `padding_mask` undefined or [B, M].
/// Dtypes: float32 or float64, the same for all tensors except the bool `padding_mask`.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// a_ir = ω_r·q_i/D^¼, [B, H, N, m]: performer_log_features without −‖q'_i‖²/2, which cancels between the numerator
/// and the denominator of a result.
Tensor performer_query_exponents(const Tensor& q, const Tensor& omega);

/// The form that the CPU's kernels compute, for tensors that are not empty.
///
/// Gradient: once (fused).
Tensor fused_performer(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                       const Tensor& padding_mask, bool causal);

/// The form composed of other ops, which sums over the keys first, for tensors that are not empty.
Tensor composed_performer(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& omega,
                          const Tensor& padding_mask, bool causal);

/// The weights, each from the logarithm of φ(q_i)·φ(k_j): [B, H, N, M].
Tensor reference_performer_weights(const Tensor& q, const Tensor& k, const Tensor& omega, const Tensor& padding_mask,
                                   bool causal);

}  // namespace detail
}  // namespace linnet
