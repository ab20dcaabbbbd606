#pragma once

#include <cstdint>
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

/// How `pad` continues x beyond its ends, as PyTorch's modes. For [a b c] and a width of 2 on both sides:
enum class PadMode : uint8_t {
  reflect,    ///< [c b a b c b a]; widths are smaller than the size
  replicate,  ///< [a a a b c c c]
  circular    ///< [b c a b c a b]; widths are at most the size
};

/// x surrounded by its own elements.
///
/// Shapes, Dtypes: as `pad`.
/// Gradient: any number of times.
/// Cost: one copy for each dim with a width; backward, the same.
/// Throws: as `pad`; ValueError also for a width that the size does not allow.
Tensor pad(const Tensor& x, const Shape& widths, PadMode mode, Where where = {});

}  // namespace linnet
