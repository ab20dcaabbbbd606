#pragma once

#include <linnet/core/tensor.h>

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Fastmax in the form that the kernel says: quadratic (Gerami et al. 2024, eqs. 5–12) or factorised (eqs. 24–35),
/// for which none of the tensors may be empty. Arguments and errors are those of quadratic_attention.
Tensor fused_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep,
                     const FastmaxKernel& kernel);

}  // namespace detail
}  // namespace linnet
