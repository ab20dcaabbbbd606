#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include <linnet/core/tensor.h>

/// The elements of a tensor in another order, in another shape, or several times.
///
/// Dtypes: any.
/// Gradient: any number of times.
/// Cost: one copy of the result, except for ops whose results are views.
/// Throws: ShapeError for a dim that does not exist.

namespace linnet {

/// x with the order of the elements along each of `dims` reversed.
///
/// Throws: ShapeError also for a dim that is listed twice.
Tensor flip(const Tensor& x, const Shape& dims, Where where = {});

/// x with the elements along dims[i] moved by shifts[i] places; those moved beyond the end come in at the start.
/// Without dims, all elements in row-major order are moved.
///
/// Cost: one copy for each dim.
/// Throws: ShapeError unless there are as many shifts as dims, or one shift without dims.
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& dims = {}, Where where = {});

/// Repeats the whole of x sizes[d] times along dim d. As in PyTorch, sizes beyond x's rank make new leading dims.
/// (NumPy's repeat is `repeat_interleave`.)
///
/// Throws: ShapeError for fewer sizes than x has dims, and for a negative size.
Tensor repeat(const Tensor& x, const Shape& sizes, Where where = {});
/// As `repeat`, but there may be fewer sizes than dims; they are then those of the last dims.
Tensor tile(const Tensor& x, const Shape& sizes, Where where = {});

/// Repeats each element of x along `dim`: `repeats` times, or element i repeats[i] times. Without dim, x is flattened
/// first.
///
/// Shapes: repeats is [size of dim], or has one element.
/// Dtypes: repeats is int64 or int32.
/// Cost: one copy; a tensor `repeats` is read on the CPU, which has to wait for a GPU.
/// Throws: ValueError for a negative number; ShapeError and DTypeError for other repeats.
Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int64_t> dim = {}, Where where = {});
Tensor repeat_interleave(const Tensor& x, const Tensor& repeats, std::optional<int64_t> dim = {}, Where where = {});

/// Coordinates of a grid: result i has the elements of tensors[i] along dim i, and is constant along the other dims.
/// `indexing` is "ij", or "xy", where the first two dims are exchanged.
///
/// Shapes: [n₁], [n₂], … or rank 0 → [n₁, n₂, …] each.
/// Cost: none; the results are views.
/// Throws: ShapeError for other ranks; ValueError for another indexing and for no tensors.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& tensors, std::string_view indexing = "ij", Where where = {});

/// x[0], x[1], … along `dim`, which disappears. `stack` puts them together again.
///
/// Cost: none; the results are views.
std::vector<Tensor> unbind(const Tensor& x, int64_t dim = 0, Where where = {});

/// x with dim source[i] as dim destination[i]; the other dims keep their order.
///
/// Shapes: movedim(x, 1, -1) of x [B, C, H, W] is [B, H, W, C].
/// Cost: none; the result is a view.
/// Throws: ShapeError also for a dim that is named twice, and unless there are as many sources as destinations.
Tensor movedim(const Tensor& x, const Shape& source, const Shape& destination, Where where = {});

/// x.expand(other.shape()), x.reshape(other.shape()) and x.view(other.shape()), which core/tensor.h documents.
/// `other` gets no gradient.
///
/// Cost: none, unless `reshape_as` has to copy.
Tensor expand_as(const Tensor& x, const Tensor& other, Where where = {});
Tensor reshape_as(const Tensor& x, const Tensor& other, Where where = {});
Tensor view_as(const Tensor& x, const Tensor& other, Where where = {});

}  // namespace linnet
