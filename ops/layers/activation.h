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

/// x where x > 0, negative_slope·x elsewhere.
///
/// Gradient: `negative_slope` at 0.
/// Cost: three passes backward.
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01, Where where = {});

/// x where x > 0, alpha·(eˣ − 1) elsewhere.
///
/// Gradient: `alpha` at 0.
/// Cost: four passes backward where alpha is not 1.
/// Source: Clevert et al. 2016.
Tensor elu(const Tensor& x, double alpha = 1, Where where = {});

/// x with values below `min_val` raised to it and values above `max_val` lowered to it. As `clamp`, except for the
/// gradient.
///
/// Gradient: 1 between min_val and max_val, 0 at both and beyond, the cotangent at NaN.
/// Cost: two passes, and four backward.
/// Throws: ValueError when min_val > max_val.
Tensor hardtanh(const Tensor& x, double min_val = -1, double max_val = 1, Where where = {});

/// Which GELU: with the normal distribution function, or with its tanh approximation.
///
/// Source: Hendrycks & Gimpel 2016.
enum class Gelu { erf, tanh };

/// x·Φ(x) for Gelu::erf, 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) for Gelu::tanh; ∞ at ∞ (PyTorch: NaN).
Tensor gelu(const Tensor& x, Gelu kind = Gelu::erf, Where where = {});

/// x·sigmoid(x), also called swish
Tensor silu(const Tensor& x, Where where = {});

/// log(1 + exp(β·x))/β, computed so that it cannot overflow: no threshold is needed.
///
/// Throws: ValueError unless β > 0.
Tensor softplus(const Tensor& x, double beta = 1, Where where = {});

/// log(sigmoid(x)) = −softplus(−x), without overflow. Its gradient is 0 where eˣ overflows.
///
/// Cost: three passes, forward and backward.
Tensor logsigmoid(const Tensor& x, Where where = {});

/// a·sigmoid(b), where a and b are the first and second half of x along `dim`.
///
/// Shapes: [..., 2n, ...] → [..., n, ...].
/// Cost: two passes over the halves.
/// Throws: ShapeError for an odd size, and for a dim that does not exist.
/// Source: Dauphin et al. 2017.
Tensor glu(const Tensor& x, int64_t dim = -1, Where where = {});

}  // namespace linnet
