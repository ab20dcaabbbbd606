#pragma once

#include <linnet/core/tensor.h>

/// Checks of values, for ops whose kernels rely on them. They read the elements, so a tensor on a GPU is
/// copied over, unless it is an input of a Recording.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// Where element `i`, in row-major order, is in a tensor of this shape.
Shape position_of(int64_t i, const Shape& shape);

/// `index` as kernels take it: int64 and contiguous, every entry within dim `dim` of `target`. Throws
/// DTypeError for other than int64 and int32, and IndexError; `name` and `target_name` are what messages call
/// the two.
Tensor checked_index(const Tensor& index, const char* name, const Shape& target, const char* target_name, int dim);

}  // namespace detail
}  // namespace linnet
