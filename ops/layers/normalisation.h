#pragma once

#include <linnet/core/tensor.h>

/// Normalisation over the last dim of floating tensors, fused: one pass over the rows each way, and no second
/// derivatives. Beside x of bfloat16, weight and bias are float32. Throws ShapeError for weights that do not fit and
/// rank 0, DTypeError for dtypes that differ otherwise or are not floating, ValueError unless eps ≥ 0.

namespace linnet {

/// (x − mean)/√(var + eps) · weight + bias, with mean and (biased) variance of each row [C] of x [..., C];
/// weight and bias are [C], or undefined for 1 and 0. Ba et al. 2016, "Layer normalization", eq. 4.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5,
                  Where where = {});

/// x/√(mean(x²) + eps) · weight, with the mean of each row [C] of x [..., C]; weight is [C], or undefined
/// for 1. Zhang & Sennrich 2019, "Root mean square layer normalization", eq. 4. PyTorch's default eps is the
/// dtype's machine epsilon; here it is 1e-6.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6, Where where = {});

}  // namespace linnet
