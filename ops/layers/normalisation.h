#pragma once

#include <linnet/core/tensor.h>

/// Normalisation over the last dim.
///
/// Shapes: x [..., C], weight and bias [C].
/// Dtypes: one floating dtype; for bfloat16 x, weight and bias are float32.
/// Gradient: once (fused).
/// Cost: one pass over the rows, forward and backward.
/// Throws: ShapeError for weights that do not fit and rank 0; DTypeError for dtypes that differ otherwise or are not
/// floating; ValueError unless eps ≥ 0.

namespace linnet {

/// (x − mean)/√(var + eps) · weight + bias, with the mean and (biased) variance of each row. Undefined weight and
/// bias stand for 1 and 0. NaN in a row whose variance overflows.
///
/// Source: Ba et al. 2016, "Layer normalization", eq. 4.
Tensor layer_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5,
                  Where where = {});

/// x/√(mean(x²) + eps) · weight, with the mean of each row. An undefined weight stands for 1. PyTorch's default eps
/// is the dtype's machine epsilon; here it is 1e-6.
///
/// Source: Zhang & Sennrich 2019, "Root mean square layer normalization", eq. 4.
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double eps = 1e-6, Where where = {});

}  // namespace linnet
