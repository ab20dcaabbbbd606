#pragma once

#include <linnet/core/tensor.h>

/// Activations, element by element.
///
/// Dtypes: floating.
/// Gradient: any number of times.
/// Cost: one pass over the elements, forward and backward.
/// Throws: DTypeError for other dtypes.

namespace linnet {

/// The hyperbolic tangent.
Tensor tanh(const Tensor& x, Where where = {});
/// 1/(1 + exp(−x))
Tensor sigmoid(const Tensor& x, Where where = {});
/// max(x, 0)
///
/// Gradient: 0 at 0, the cotangent at NaN.
Tensor relu(const Tensor& x, Where where = {});

/// Which GELU: with the normal distribution function, or with its tanh approximation.
///
/// Source: Hendrycks & Gimpel 2016.
enum class Gelu { erf, tanh };

/// x·Φ(x) for Gelu::erf, 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) for Gelu::tanh.
Tensor gelu(const Tensor& x, Gelu kind = Gelu::erf, Where where = {});

/// x·sigmoid(x), also called swish
Tensor silu(const Tensor& x, Where where = {});

/// log(1 + exp(β·x))/β, computed so that it cannot overflow: no threshold is needed.
///
/// Throws: ValueError unless β > 0.
Tensor softplus(const Tensor& x, double beta = 1, Where where = {});

}  // namespace linnet
