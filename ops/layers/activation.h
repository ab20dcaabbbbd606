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

/// min(max(x, 0), 6)
///
/// Gradient: as `hardtanh`.
/// Cost: as `hardtanh`.
Tensor relu6(const Tensor& x, Where where = {});
/// relu6(x + 3)/6
///
/// Cost: four passes, and six backward.
Tensor hardsigmoid(const Tensor& x, Where where = {});
/// x·hardsigmoid(x)
///
/// Cost: five passes, and eight backward.
/// Source: Howard et al. 2019, section 5.2.
Tensor hardswish(const Tensor& x, Where where = {});

/// scale·elu(x, alpha) with alpha = 1.6733 and scale = 1.0507: standardised inputs of a wide linear layer stay so.
///
/// Cost: two passes, and five backward.
/// Source: Klambauer et al. 2017.
Tensor selu(const Tensor& x, Where where = {});

/// x where x > 0, weight·x elsewhere: leaky_relu with slopes that are learned.
///
/// Shapes: x [B, C, ...] with weight [C], or any x with weight [1].
/// Gradient: any number of times, also to `weight`; `weight` at 0.
/// Cost: two passes, and four backward.
/// Throws: ShapeError also for a weight of another shape.
/// Source: He et al. 2015, eq. 1.
Tensor prelu(const Tensor& x, const Tensor& weight, Where where = {});

/// Which GELU: with the normal distribution function, or with its tanh approximation.
///
/// Source: Hendrycks & Gimpel 2016.
enum class Gelu { erf, tanh };

/// x·Φ(x) for Gelu::erf, 0.5·x·(1 + tanh(√(2/π)·(x + 0.044715·x³))) for Gelu::tanh; ∞ at ∞ (PyTorch: NaN).
Tensor gelu(const Tensor& x, Gelu kind = Gelu::erf, Where where = {});

/// x·sigmoid(x), also called swish
Tensor silu(const Tensor& x, Where where = {});

/// x·tanh(softplus(x))
///
/// Cost: three passes, and five backward.
/// Source: Misra 2020.
Tensor mish(const Tensor& x, Where where = {});

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
