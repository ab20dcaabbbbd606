#pragma once

#include <linnet/core/tensor.h>

/// Along one dim of floating tensors; DTypeError for others, ShapeError for a dim that does not exist. One pass over
/// the rows each way. Differentiable any number of times.

namespace linnet {

/// exp(x) / sum exp(x) along `dim`, without overflow. A row that is all −inf gives 0, and no gradient.
Tensor softmax(const Tensor& x, int64_t dim = -1, Where where = {});

/// log(softmax(x)) along `dim`, accurate where the softmax is nearly 0. A row that is all −inf gives −inf,
/// and its gradient is the cotangent itself, as its softmax counts as 0.
Tensor log_softmax(const Tensor& x, int64_t dim = -1, Where where = {});

}  // namespace linnet
