#pragma once

#include <linnet/core/tensor.h>

/// Ops whose result size depends on the elements of x.
///
/// Cost: the CPU counts the elements. A tensor on a GPU is copied to it, after a wait for the GPU's kernels, so these
/// ops cannot be part of a Recording.

namespace linnet {

/// The indices of the elements that are not 0, in row-major order. A NaN is not 0.
///
/// Shapes: [count, rank of x]; column d has the indices of dim d.
/// Dtypes: any → int64.
/// Gradient: none.
Tensor nonzero(const Tensor& x, Where where = {});

/// The elements of x where `mask` is true, in row-major order: PyTorch's x[mask].
///
/// Shapes: x and mask broadcast; the result has rank 1.
/// Dtypes: any, and a mask of bool.
/// Gradient: any number of times, to x.
/// Throws: ShapeError for shapes that do not broadcast; DTypeError for another mask.
Tensor masked_select(const Tensor& x, const Tensor& mask, Where where = {});

/// The results of `unique`.
struct UniqueElements {
  Tensor values;           ///< ascending, of rank 1
  Tensor inverse_indices;  ///< int64, of x's shape: the element of `values` that each element of x equals
  Tensor counts;           ///< int64: how often each of `values` occurs
};

/// The distinct elements of x, as in `auto [values, inverse, counts] = unique(x)`. As NaNs do not equal each other,
/// each is an element of its own, at the end.
///
/// Dtypes: any.
/// Gradient: any number of times, from the values to the first of equal elements.
/// Cost: a sort of all elements.
UniqueElements unique(const Tensor& x, Where where = {});

/// How often each of 0, 1, … occurs, up to the largest element of x, or up to `minlength` − 1 if that is larger. With
/// `weights`, the sums of the weights of these elements instead of their number.
///
/// Shapes: x [n], weights [n].
/// Dtypes: int64 or int32 → int64; with weights, their dtype.
/// Gradient: any number of times, to the weights.
/// Throws: IndexError for a negative element; ValueError for a negative minlength; ShapeError for other shapes;
/// DTypeError for other dtypes.
Tensor bincount(const Tensor& x, const Tensor& weights = {}, int64_t minlength = 0, Where where = {});

}  // namespace linnet
