#pragma once

#include <linnet/core/device/backend.h>
#include <linnet/core/tensor.h>

namespace linnet::detail {

// Not hidden: tests, which may link a shared library, compare the fused op with it.

/// Fastmax in its factorised form, composed of other ops as in section 2.4 of the paper: the plain version of the
/// fused op. Ignores the kernel's dropout.
///
/// Shapes: q [B, H, N, D], k and v [B, H, M, D] → [B, H, N, D].
/// Gradient: any number of times.
/// Cost: time and memory O(M·D³) for order 2 and O(M·D²) for order 1; when causal, O((N + M)·D³) and O((N + M)·D²).
/// Throws: ShapeError, DTypeError, DeviceError.
/// Source: Gerami et al. 2024, eqs. 24–35.
Tensor factorised_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                          const FastmaxParams& params);

}  // namespace linnet::detail
