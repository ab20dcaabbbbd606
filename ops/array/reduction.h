#pragma once

#include <concepts>
#include <initializer_list>

#include <linnet/core/tensor.h>

/// Reductions over `dims`, in any order; without dims, over all of them. A negative dim counts from the end. Sums
/// have a fixed order, which does not depend on the number of threads.
///
/// Shapes: a reduced dim disappears, or has size 1 with `keepdim`. With rank 0, dims 0 and −1 change nothing.
/// Dtypes: for bfloat16, `sum`, `mean`, `var` and `norm` compute in float32 and round the result.
/// Gradient: any number of times, unless stated otherwise.
/// Cost: one pass over the elements, forward and backward; two passes for `logsumexp` and for the gradient of
/// `norm`, five for `var`.
/// Throws: ShapeError for a dim that does not exist or is listed twice; DTypeError for dtypes other than those named.

namespace linnet {

/// Sums.
///
/// Dtypes: any. Sums of integers and bools are int64. float32 is accumulated in float64.
Tensor sum(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});

/// Products; 1 over no elements.
///
/// Dtypes: any. Products of integers and bools are int64. float32 is accumulated in float64.
/// Gradient: any number of times, also correct where elements are 0 or infinite (PyTorch divides by them); backward
/// takes about ten passes, in float64.
Tensor prod(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});

/// Means; NaN over no elements.
///
/// Dtypes: floating.
Tensor mean(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});

/// sum (x − mean)² / (n − correction), where n elements are reduced: the unbiased estimate for a correction of 1, the
/// mean square for 0. NaN or infinite when n ≤ correction, and NaN where x has an infinity or a NaN.
///
/// Dtypes: floating.
/// Gradient: any number of times; all NaN where x has an infinity or a NaN (PyTorch: also infinities).
Tensor var(const Tensor& x, const Shape& dims = {}, double correction = 1, KeepDim keepdim = false, Where where = {});
/// Deleted: a bool after `dims` is `keepdim` in the other reductions, and would be the correction here.
template <std::same_as<bool> Bool>
Tensor var(const Tensor& x, const Shape& dims, Bool) = delete;

/// The largest elements; NaN where there is a NaN.
///
/// Dtypes: any but bool.
/// Gradient: any number of times, shared evenly among equal elements, or among NaN (where PyTorch's is all NaN).
/// Throws: ShapeError for a dim of size 0.
Tensor max(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});
/// The smallest elements; otherwise as `max`.
Tensor min(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});

/// Elements and their indices.
struct ValuesAndIndices {
  Tensor values;   ///< of the dtype of x
  Tensor indices;  ///< int64, along the dim that was searched
};

namespace detail {
ValuesAndIndices max_along(const Tensor& x, int64_t dim, bool keepdim, Where where);
ValuesAndIndices min_along(const Tensor& x, int64_t dim, bool keepdim, Where where);
}  // namespace detail

/// The largest elements along one dim and their indices, as in `auto [values, indices] = max(x, 1)`. Of equal
/// elements it takes the first, and where there is a NaN the first NaN. (Braces, as in `max(x, {1})`, name dims to
/// reduce.)
///
/// Gradient: any number of times, to the element at the index alone.
template <std::integral Dim>
ValuesAndIndices max(const Tensor& x, Dim dim, KeepDim keepdim = false, Where where = {}) {
  return detail::max_along(x, dim, keepdim, where);
}
/// The smallest elements; otherwise as `max`.
template <std::integral Dim>
ValuesAndIndices min(const Tensor& x, Dim dim, KeepDim keepdim = false, Where where = {}) {
  return detail::min_along(x, dim, keepdim, where);
}

template <std::integral Dim>
ValuesAndIndices Tensor::max(Dim dim, KeepDim keepdim, Where where) const {
  return linnet::max(*this, dim, keepdim, where);
}
template <std::integral Dim>
ValuesAndIndices Tensor::min(Dim dim, KeepDim keepdim, Where where) const {
  return linnet::min(*this, dim, keepdim, where);
}

/// The element in the middle when all are sorted: for an even number, the lower one of the two in the middle. (NumPy
/// takes their mean.) NaN where there is a NaN.
///
/// Dtypes: any but bool.
/// Gradient: any number of times, shared evenly among equal elements.
/// Cost: a sort of half the elements.
/// Throws: ShapeError for no elements.
Tensor median(const Tensor& x, Where where = {});
/// The medians along one dim, with the indices: that of any of several equal elements, or that of the first NaN.
///
/// Gradient: any number of times, to the element at the index alone.
/// Throws: ShapeError for a dim of size 0.
ValuesAndIndices median(const Tensor& x, int64_t dim, KeepDim keepdim = false, Where where = {});

/// The index along `dim` of the largest element, the first among equals; or of the first NaN, if there is one.
///
/// Dtypes: any but bool → int64.
/// Gradient: none.
/// Throws: ShapeError when `dim` has size 0.
Tensor argmax(const Tensor& x, int64_t dim, KeepDim keepdim = false, Where where = {});
/// The index of the smallest element; otherwise as `argmax`.
Tensor argmin(const Tensor& x, int64_t dim, KeepDim keepdim = false, Where where = {});

/// log(sum exp(x)), without overflow; −inf where all elements are −inf.
///
/// Dtypes: floating.
/// Gradient: any number of times; 0 where all elements are −inf (PyTorch: NaN).
Tensor logsumexp(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});

/// Whether any element is nonzero; false over no elements.
///
/// Dtypes: any → bool.
/// Gradient: none.
Tensor any(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});
/// Whether all elements are nonzero; true over no elements. Otherwise as `any`.
Tensor all(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});

/// (sum |x|^p)^(1/p) for p ≥ 1, or max |x| for an infinite p.
///
/// Dtypes: floating. Powers do not overflow or vanish as PyTorch's do, except squares of float64.
/// Gradient: any number of times; 0 where the norm is 0, and NaN at a NaN (PyTorch's for p = 1 and ∞: 0).
/// Throws: ValueError for another p.
Tensor norm(const Tensor& x, double p = 2, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});
/// Deleted: braces after `x` are `dims` in the other reductions, and would be `p` here. Write norm(x, 2, {1}).
Tensor norm(const Tensor& x, std::initializer_list<int64_t> dims) = delete;

/// Inclusive running sums along `dim`.
///
/// Dtypes: any. Sums of integers and bools are int64.
Tensor cumsum(const Tensor& x, int64_t dim, Where where = {});

/// Inclusive running products along `dim`.
///
/// Dtypes: any. Products of integers and bools are int64.
/// Gradient: any number of times, also correct where elements are 0 (PyTorch divides by x).
Tensor cumprod(const Tensor& x, int64_t dim, Where where = {});

/// The differences x[i + 1] − x[i] along `dim`, taken n times; n = 0 gives x. `prepend` and `append`, where given, go
/// before and after x first.
///
/// Shapes: without `prepend` and `append`, `dim` gets smaller by n, down to 0. These two have x's shape except in
/// `dim`.
/// Dtypes: any; for bools, the result is true where neighbours differ.
/// Throws: ValueError for a negative n.
Tensor diff(const Tensor& x, int64_t n = 1, int64_t dim = -1, const Tensor& prepend = {}, const Tensor& append = {},
            Where where = {});

}  // namespace linnet
