#pragma once

#include <linnet/core/tensor.h>

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// scatter_add without its checks, for indices that a kernel has made or that have been checked: int64 and
/// contiguous, of the shape of src.
Tensor scatter_add_elements(const Tensor& x, int dim, const Tensor& index, const Tensor& src);

}  // namespace detail
}  // namespace linnet
