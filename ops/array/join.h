#pragma once

#include <vector>

#include <linnet/core/tensor.h>

namespace linnet {

/// The tensors one after another along `dim`.
///
/// Shapes: [..., n₁, ...], [..., n₂, ...] → [..., n₁ + n₂, ...], all of one shape except in `dim`.
/// Dtypes: one dtype.
/// Gradient: any number of times.
/// Cost: one copy.
/// Throws: ShapeError, DTypeError; ValueError for no tensors.
Tensor concat(const std::vector<Tensor>& tensors, int64_t dim = 0, Where where = {});

/// The tensors next to each other along a new dim, which is `dim` of the result.
///
/// Shapes: one shape.
/// Dtypes: one dtype.
/// Gradient: any number of times.
/// Cost: one copy.
/// Throws: as `concat`.
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0, Where where = {});

/// x surrounded by `value`. As in PyTorch, `widths` is {before, after} of the last dim, then of the one before it,
/// and so on. The remaining dims stay as they are.
///
/// Dtypes: any that can hold `value`.
/// Gradient: any number of times.
/// Cost: one copy.
/// Throws: ValueError for a negative width, an odd number of widths, and more widths than two for each dim.
Tensor pad(const Tensor& x, const Shape& widths, Scalar value = 0, Where where = {});

}  // namespace linnet
