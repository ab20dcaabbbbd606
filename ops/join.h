#pragma once

#include <vector>

#include <linnet/core/tensor.h>

namespace linnet {

/// The tensors one after another along `dim`. They have one dtype, and one shape but for `dim`.
Tensor concat(const std::vector<Tensor>& tensors, int64_t dim = 0, Where where = {});

/// The tensors, of one shape and dtype, along a new dim at `dim` of the result.
Tensor stack(const std::vector<Tensor>& tensors, int64_t dim = 0, Where where = {});

/// x with `value` around it. `widths` is {before, after} of the last dim, then of the one before it, and so
/// on, as in PyTorch; dims that it does not reach stay as they are. Throws ValueError for a negative width.
Tensor pad(const Tensor& x, const Shape& widths, Scalar value = 0, Where where = {});

}  // namespace linnet
