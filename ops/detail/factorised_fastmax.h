#pragma once

#include <linnet/core/tensor.h>

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Fastmax in its factorised form (Gerami et al. 2024, eqs. 24–35): the counterpart of quadratic_attention, with the
/// same arguments and errors, none of the tensors empty. Standardises queries and keys itself, as the kernel says.
Tensor factorised_fastmax(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& keep,
                          const FastmaxKernel& kernel);

}  // namespace detail
}  // namespace linnet
