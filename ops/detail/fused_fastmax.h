#pragma once

#include <linnet/core/tensor.h>

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Fastmax in its factorised form (Gerami et al. 2024, eqs. 24–35), of tensors that are not empty. Arguments and
/// errors are those of quadratic_attention.
Tensor fused_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep,
                     const FastmaxKernel& kernel);

}  // namespace detail
}  // namespace linnet
