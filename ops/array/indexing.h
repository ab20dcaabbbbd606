#pragma once

#include <linnet/core/tensor.h>

/// Reading and writing at indices.
///
/// Dtypes: indices are int64 or int32.
/// Gradient: any number of times, but none to indices.
/// Cost: one pass over the elements of the result; backward, over those of x.
/// Throws: IndexError for an index outside [0, size), with its position; DTypeError for indices of another dtype;
/// ShapeError for ranks and sizes that do not fit.

namespace linnet {

/// Rows of `weight` at `ids`.
///
/// Shapes: weight [V, D], ids [...] → [..., D].
Tensor embedding(const Tensor& weight, const Tensor& ids, Where where = {});

/// The slices of x along `dim` at `index`, in the order of `index`.
///
/// Shapes: `index` has rank 1.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index, Where where = {});

/// out[i][j][k] = x[index[i][j][k]][j][k] for dim 0, and likewise for other dims.
///
/// Shapes: `index` has x's rank, and is no larger than x but in `dim`. The result has its shape.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, Where where = {});

/// A copy of x with out[index[i][j][k]][j][k] += src[i][j][k] for dim 0, and likewise for other dims. Sums have a
/// fixed order.
///
/// Shapes: `index` and `src` have x's rank. `index` is no larger than `src`, and no larger than x but in `dim`.
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, Where where = {});

/// 1 at the class, 0 elsewhere.
///
/// Shapes: ids [...] → [..., classes].
/// Gradient: none.
/// Throws: ValueError unless classes ≥ 1.
Tensor one_hot(const Tensor& ids, int64_t classes, DType dtype = DType::int64, Where where = {});

/// x with the elements above `diagonal` set to 0; 0 is the main diagonal, 1 the one above it.
///
/// Shapes: x [..., N, M].
Tensor tril(const Tensor& x, int64_t diagonal = 0, Where where = {});
/// x with the elements below `diagonal` set to 0, otherwise as `tril`.
Tensor triu(const Tensor& x, int64_t diagonal = 0, Where where = {});

}  // namespace linnet
