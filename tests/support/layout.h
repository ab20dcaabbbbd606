#pragma once

#include <linnet/core/tensor.h>

namespace linnet::test {

/// Ways to hold the same elements.
enum class Layout {
  contiguous,  ///< row-major
  transposed,  ///< column-major: unit stride in the first dim
  gapped,      ///< column-major, every other slot of memory unused (and NaN, so that reading one shows)
};

const char* name_of(Layout layout);

/// A leaf that holds the elements of `x` in the order of `layout`.
Tensor pack(const Tensor& x, Layout layout);
/// The view of a packed leaf that equals `x`, recorded like any view.
Tensor unpack(const Tensor& leaf, Layout layout);
/// The unused slots of a packed leaf; undefined where there are none.
Tensor gaps(const Tensor& leaf, Layout layout);

}  // namespace linnet::test
