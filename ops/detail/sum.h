#pragma once

#include <linnet/core/tensor.h>

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// `sum` of floating x with a result of `dtype`: that of x, or float32 for bfloat16.
Tensor sum_in(DType dtype, const Tensor& x, const Shape& dims, bool keepdim = false, Where where = {});

}  // namespace detail
}  // namespace linnet
