#pragma once

#include <linnet/core/tensor.h>

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

// Ops without their checks, for indices that a kernel made or that have been checked: int64.

/// index_select.
Tensor select_slices(const Tensor& x, int dim, const Tensor& index);
/// gather.
Tensor gather_elements(const Tensor& x, int dim, const Tensor& index);
/// scatter_add, with an index of src's shape.
Tensor scatter_add_elements(const Tensor& x, int dim, const Tensor& index, const Tensor& src);

}  // namespace detail
}  // namespace linnet
