#pragma once

#include <linnet/core/tensor.h>

/// Reading and writing at indices. Indices are int64 or int32 and lie in [0, size): anything else throws
/// IndexError, naming the index and its position. Indices of another dtype are a DTypeError, ranks and sizes that do
/// not fit a ShapeError. Indices have no gradient; what is read, copied or added has. One pass over the elements of
/// the result; backward, over those of x.

namespace linnet {

/// Rows of `weight` [V, D] at `ids` (any shape): [..., D].
Tensor embedding(const Tensor& weight, const Tensor& ids, Where where = {});

/// The slices of x along `dim` at `index` (rank 1), in its order.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index, Where where = {});

/// out[i][j][k] = x[index[i][j][k]][j][k] for dim 0, and likewise for others. `index` has x's rank, and is no
/// larger than x in the other dims; the result has its shape.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, Where where = {});

/// A copy of x with out[index[i][j][k]][j][k] += src[i][j][k] for dim 0, and likewise for others, in a fixed
/// order. `index` and `src` have x's rank; `index` is no larger than `src`, nor than x in the other dims.
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, Where where = {});

/// Integer ids [...] → [..., classes]: 1 at the class, 0 elsewhere. Throws ValueError unless classes ≥ 1.
Tensor one_hot(const Tensor& ids, int64_t classes, DType dtype = DType::int64, Where where = {});

/// x [..., N, M] with the elements above `diagonal` set to 0; 0 is the main diagonal, 1 the one above it.
Tensor tril(const Tensor& x, int64_t diagonal = 0, Where where = {});
/// x [..., N, M] with the elements below `diagonal` set to 0.
Tensor triu(const Tensor& x, int64_t diagonal = 0, Where where = {});

}  // namespace linnet
