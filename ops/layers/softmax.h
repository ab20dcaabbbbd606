#pragma once

#include <linnet/core/tensor.h>

/// The softmax along one dim.
///
/// Dtypes: floating.
/// Gradient: any number of times.
/// Cost: one pass over the lines, forward and backward.
/// Throws: DTypeError for other dtypes; ShapeError for a dim that does not exist.

namespace linnet {

/// exp(x) / sum exp(x) along `dim`, without overflow. A line of −inf, where all is masked, gives 0 and has no
/// gradient. (PyTorch gives NaN.)
Tensor softmax(const Tensor& x, int64_t dim = -1, Where where = {});

/// log(softmax(x)) along `dim`, accurate where the softmax is nearly 0. A line of −inf gives −inf, where PyTorch
/// gives NaN. Its gradient is the cotangent itself, because its softmax counts as 0.
Tensor log_softmax(const Tensor& x, int64_t dim = -1, Where where = {});

}  // namespace linnet
