#pragma once

#include <concepts>
#include <initializer_list>

#include <linnet/core/tensor.h>

/// Reductions. `dims` lists the dims to reduce, in any order, negative ones counted from the end; none means
/// all of them. A reduced dim disappears, or stays with size 1 when `keepdim`. A dim that does not exist or
/// that is listed twice is a ShapeError; a dtype that is not taken a DTypeError. Sums have a fixed order, whatever
/// the threads. One pass over the elements (`var`, `logsumexp` both ways and the gradient of `norm` two), forward and
/// backward. Of bfloat16, `sum`, `mean`, `var` and `norm` compute in float32 and round the result.

namespace linnet {

/// Sums, of any dtype; those of integers and bools are int64. Float32 is accumulated in float64.
Tensor sum(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});

/// Means of a floating tensor; NaN over no elements.
Tensor mean(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});

/// sum (x − mean)² / (n − correction), n the number of elements reduced: 1 for the unbiased estimate, 0 for
/// the mean square. Floating. NaN or infinite when n ≤ correction, and NaN where x has an infinity or a NaN; its
/// gradients are NaN then.
Tensor var(const Tensor& x, const Shape& dims = {}, double correction = 1, KeepDim keepdim = false, Where where = {});
/// A bool behind `dims` is `keepdim` in the other reductions, and would be a correction here.
template <std::same_as<bool> Bool>
Tensor var(const Tensor& x, const Shape& dims, Bool) = delete;

/// The largest elements, of any dtype but bool; NaN where there is one. The gradient is shared evenly among equals.
/// Throws ShapeError over a dim of size 0.
Tensor max(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});
/// The smallest elements, likewise.
Tensor min(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});

/// Elements, and where they were.
struct ValuesAndIndices {
  Tensor values;
  Tensor indices;  ///< int64, along the dim that was looked through
};

namespace detail {
ValuesAndIndices max_along(const Tensor& x, int64_t dim, bool keepdim, Where where);
ValuesAndIndices min_along(const Tensor& x, int64_t dim, bool keepdim, Where where);
}  // namespace detail

/// The largest elements along one dim, and where they are, as in `auto [values, indices] = max(x, 1)`: the first
/// among equals, or the first NaN, and the gradient goes to it alone. (Braces, as in `max(x, {1})`, name dims to
/// reduce.)
template <std::integral Dim>
ValuesAndIndices max(const Tensor& x, Dim dim, KeepDim keepdim = false, Where where = {}) {
  return detail::max_along(x, dim, keepdim, where);
}
/// The smallest elements, likewise.
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

/// int64 index along `dim` of the largest element, the first among equals; of the first NaN where there is
/// one. Any dtype but bool; no gradient. Throws ShapeError when `dim` has size 0.
Tensor argmax(const Tensor& x, int64_t dim, KeepDim keepdim = false, Where where = {});
/// The same of the smallest element.
Tensor argmin(const Tensor& x, int64_t dim, KeepDim keepdim = false, Where where = {});

/// log(sum exp(x)) of floating x, without overflow; −inf, with gradient 0, where all of x is.
Tensor logsumexp(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});

/// Whether any element is nonzero, as bool; false over none. Takes every dtype; no gradient.
Tensor any(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});
/// Whether all elements are nonzero; true over none.
Tensor all(const Tensor& x, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});

/// (sum |x|^p)^(1/p) of floating x for p ≥ 1, or max |x| for an infinite p; powers of float32 are float64. The
/// gradient is 0 where the norm is 0, and NaN at a NaN. Throws ValueError for another p.
Tensor norm(const Tensor& x, double p = 2, const Shape& dims = {}, KeepDim keepdim = false, Where where = {});
/// Braces behind `x` are `dims` in the other reductions, and would be `p` here: write norm(x, 2, {1}).
Tensor norm(const Tensor& x, std::initializer_list<int64_t> dims) = delete;

/// Inclusive running sums along `dim`; those of integers and bools are int64.
Tensor cumsum(const Tensor& x, int64_t dim, Where where = {});

}  // namespace linnet
