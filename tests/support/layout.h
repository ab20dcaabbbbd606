#pragma once

#include <linnet/core/tensor.h>

namespace linnet::test {

/// Ways to hold the same elements.
enum class Layout {
  contiguous,  ///< row-major
  transposed,  ///< column-major: unit stride in the first dim
  gapped,      ///< column-major with every other element unused; these are NaN, so that reading one is noticed
};

const char* name_of(Layout layout);

/// A leaf with the elements of `x` in the memory order of `layout`.
Tensor pack(const Tensor& x, Layout layout);
/// A view of a packed leaf that equals `x`, and through which gradients flow.
Tensor unpack(const Tensor& leaf, Layout layout);
/// The unused elements of a packed leaf; undefined if there are none.
Tensor gaps(const Tensor& leaf, Layout layout);

}  // namespace linnet::test
