#pragma once

#include <linnet/core/tensor.h>

/// Checks of values on which kernels rely. They read the elements, so a tensor on a GPU is copied to the CPU, unless
/// it is an input of a Recording.

namespace linnet {
namespace [[gnu::visibility("hidden")]] detail {

/// `index` as kernels take it: int64, with every entry in the range of dim `dim` of `target`. An expanded index stays
/// a view, whose entries are checked once. Messages call the two `name` and `target_name`.
///
/// Throws: DTypeError for a dtype other than int64 and int32; IndexError.
Tensor checked_index(const Tensor& index, const char* name, const Shape& target, const char* target_name, int dim);

}  // namespace detail
}  // namespace linnet
