#pragma once

#include <linnet/core/tensor.h>

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// scatter_add without its checks, for indices that a kernel made or that have been checked. They are int64,
/// contiguous, and have src's shape.
Tensor scatter_add_elements(const Tensor& x, int dim, const Tensor& index, const Tensor& src);

}  // namespace gnu::visibility("hidden")]]detail
}  // namespace linnet
