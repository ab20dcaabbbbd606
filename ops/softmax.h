#pragma once

#include <linnet/core/tensor.h>

namespace linnet {

/// exp(x) / sum exp(x) along `dim`, without overflow. A row that is all −inf gives 0, and no gradient.
/// Floating.
Tensor softmax(const Tensor& x, int64_t dim = -1, Where where = {});

/// log(softmax(x)) along `dim`, accurate where the softmax is nearly 0. A row that is all −inf gives −inf.
/// Floating.
Tensor log_softmax(const Tensor& x, int64_t dim = -1, Where where = {});

}  // namespace linnet
