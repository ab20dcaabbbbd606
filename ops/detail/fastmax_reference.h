#pragma once

#include <linnet/core/device/backend.h>
#include <linnet/core/tensor.h>

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Fastmax as its definition reads (Gerami et al. 2024, eqs. 5–12), composed of other ops: the oracle of the fused
/// forms, with their arguments and errors. Memory grows with N². Ignores the kernel's dropout.
Tensor fastmax_reference(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding_mask,
                         const FastmaxParams& params);

/// The weights in it, eq. 7: [B, H, N, M].
Tensor fastmax_reference_weights(const Tensor& q, const Tensor& k, const Tensor& padding_mask,
                                 const FastmaxParams& params);

}  // namespace detail
}  // namespace linnet
