#pragma once

#include <vector>

#include <linnet/core/tensor.h>

namespace linnet {

/// The tensors one after another along `dim`: [..., n₁, ...], [..., n₂, ...] → [..., n₁ + n₂, ...]. They have one
/// dtype (else DTypeError), and one shape but for `dim` (else ShapeError). Throws ValueError for none. One copy.
Tensor concat(const std::vector<Tensor>& tensors, int64_t dim = 0, Where where = {});

/// The tensors, of one shape and dtype, along a new dim at `dim` of the result. Throws as `concat`. One copy.
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0, Where where = {});

/// x with `value` around it. `widths` is {before, after} of the last dim, then of the one before it, and so
/// on, as in PyTorch; dims that it does not reach stay as they are. Any dtype that can hold `value`. Throws
/// ValueError for a negative width, or widths that are not two for each of at most x's dims. One copy.
Tensor pad(const Tensor& x, const Shape& widths, Scalar value = 0, Where where = {});

}  // namespace linnet
