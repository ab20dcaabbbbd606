#pragma once

#include <optional>
#include <vector>

#include <linnet/core/tensor.h>

/// Reading and writing at indices.
///
/// Dtypes: indices are int64 or int32.
/// Gradient: any number of times, but none to indices.
/// Cost: one pass over the elements of the result; backward, over those of x.
/// Throws: IndexError for an index outside [0, size), with its position. A negative index is outside, though
/// PyTorch's x[index] counts it from the end. DTypeError for indices of another dtype; ShapeError for ranks and sizes
/// that do not fit.

namespace linnet {

/// Rows of `weight` at `ids`. The arguments have the order of torch.embedding; torch.nn.functional.embedding takes
/// `ids` first.
///
/// Shapes: weight [V, D], ids [...] → [..., D].
Tensor embedding(const Tensor& weight, const Tensor& ids, Where where = {});

/// The slices of x along `dim` at `index`, in the order of `index`.
///
/// Shapes: `index` has rank 1.
Tensor index_select(const Tensor& x, int64_t dim, const Tensor& index, Where where = {});

/// out[i][j][k] = x[index[i][j][k]][j][k] for dim 0, and likewise for other dims.
///
/// Shapes: `index` has x's rank, and is no larger than x except in `dim`. The result has the shape of `index`.
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index, Where where = {});

/// A copy of x with out[index[i][j][k]][j][k] += src[i][j][k] for dim 0, and likewise for other dims. Sums have a
/// fixed order.
///
/// Shapes: `index` and `src` have x's rank. `index` is no larger than `src`, and no larger than x except in `dim`.
/// Throws: DTypeError also where x and src differ in dtype.
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, Where where = {});

/// `gather`, but x and `indices` broadcast in the other dims. Without dim, both are flattened. NumPy's
/// take_along_axis.
///
/// Shapes: x and `indices` have one rank, unless dim is left out.
Tensor take_along_dim(const Tensor& x, const Tensor& indices, std::optional<int64_t> dim = {}, Where where = {});

/// A copy of x with out[index[i][j][k]][j][k] = src[i][j][k] for dim 0, and likewise for other dims. Where `index`
/// names a place twice, the last value counts.
///
/// Shapes: as `scatter_add`.
/// Gradient: any number of times, to x where it is kept, and to the elements of src that count.
/// Throws: DTypeError also where x and src differ in dtype.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& src, Where where = {});
/// `scatter` with one value in place of src.
Tensor scatter(const Tensor& x, int64_t dim, const Tensor& index, Scalar value, Where where = {});

/// The elements of x at the indices, for its first dims: x[indices[0], indices[1], …] in PyTorch, such as one column
/// of each row:
///
///     const Tensor x = rand({4, 10}, rng), columns = randint(0, 10, {4}, rng);
///     const Tensor chosen = index(x, {arange(4), columns});  // [4]
///
/// A bool mask stands for the indices of its true elements, in as many dims as it has.
///
/// Shapes: the indices broadcast; the result has their shape, followed by the dims of x that have no index.
/// Cost: one pass over the result; backward, over x. A mask is read on the CPU, as in `nonzero`.
/// Throws: ValueError for no indices; ShapeError also for more indices than x has dims.
Tensor index(const Tensor& x, const std::vector<Tensor>& indices, Where where = {});

/// A copy of x to which alpha times the slices of `source` are added: out.select(dim, index[i]) += alpha ·
/// source.select(dim, i). Sums have a fixed order.
///
/// Shapes: `index` has rank 1; `source` has x's shape, but as many slices along `dim` as `index` has elements.
/// Throws: DTypeError also where x and `source` differ in dtype.
Tensor index_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source, Scalar alpha = 1,
                 Where where = {});

/// A copy of x with `values` at the indices: x[indices[0], indices[1], …] = values in PyTorch, for the first dims of
/// x. Where a place is named twice, the last value counts; with `accumulate`, all values are added to x, in order. A
/// bool mask stands for the indices of its true elements, in as many dims as it has.
///
/// Shapes: the indices broadcast; `values` broadcasts to their shape, followed by the dims of x that have no index.
/// Dtypes: x and `values` have one dtype.
/// Gradient: any number of times, as for `scatter`, or with `accumulate` as for `scatter_add`.
/// Cost: one pass over x and one over the values. A mask is read on the CPU, as in `nonzero`.
/// Throws: ValueError for no indices; ShapeError also for a mask of another shape than the dims that it stands for.
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values, bool accumulate = false,
                 Where where = {});

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

/// For a vector, the matrix with it on the diagonal and 0 elsewhere; for a matrix, a copy of its diagonal. 0 is the
/// main diagonal, 1 the one above it. (`x.diagonal()` is a view, and takes more dims.)
///
/// Shapes: [n] → [n + |diagonal|, n + |diagonal|]; [n, m] → [length].
Tensor diag(const Tensor& x, int64_t diagonal = 0, Where where = {});

/// The sum of the diagonal of a matrix.
///
/// Dtypes: any. Sums of integers and bools are int64.
Tensor trace(const Tensor& x, Where where = {});

}  // namespace linnet
