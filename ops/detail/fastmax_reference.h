#pragma once

#include <linnet/core/device/backend.h>
#include <linnet/core/tensor.h>

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Fastmax composed of other ops, as its definition is written. Tests compare the fused forms with it; it has their
/// arguments and errors. Ignores the kernel's dropout.
///
/// Cost: memory O(N·M).
/// Source: Gerami et al. 2024, eqs. 5–12.
Tensor fastmax_reference(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                         const FastmaxParams& params);

/// The weights of `fastmax_reference`, eq. 7: [B, H, N, M].
Tensor fastmax_reference_weights(const Tensor& q, const Tensor& k, const Tensor& padding_mask,
                                 const FastmaxParams& params);

/// x̂: each vector x [..., D] with mean 0 and (population) variance 1, eqs. 5 and 6.
Tensor fastmax_standardised(const Tensor& x);

}  // namespace detail
}  // namespace linnet
