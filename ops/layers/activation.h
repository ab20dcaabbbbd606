#pragma once

#include <linnet/core/tensor.h>

/// Activations, element by element, of floating tensors; DTypeError for others. One pass over the elements, forward
/// and backward.

namespace linnet {

/// The hyperbolic tangent.
Tensor tanh(const Tensor& x, Where where = {});
/// 1/(1 + exp(−x))
Tensor sigmoid(const Tensor& x, Where where = {});
/// max(x, 0). The gradient at 0 is 0, and at NaN that of the result.
Tensor relu(const Tensor& x, Where where = {});

/// Which GELU (Hendrycks & Gimpel 2016): with the normal distribution itself, or with its tanh approximation.
enum class Gelu { erf, tanh };

/// x·Φ(x), or 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
Tensor gelu(const Tensor& x, Gelu kind = Gelu::erf, Where where = {});

/// x·sigmoid(x) (swish)
Tensor silu(const Tensor& x, Where where = {});

/// log(1 + exp(β·x))/β, computed so that it cannot overflow: no threshold is needed. Throws ValueError unless
/// β > 0.
Tensor softplus(const Tensor& x, double beta = 1, Where where = {});

}  // namespace linnet
