#pragma once

#include <linnet/core/tensor.h>

/// Normalisation of channels, which are dim 1: x [N, C, …].
///
/// Dtypes: one floating dtype; for bfloat16 x, all others are float32.
/// Gradient: any number of times, of x, weight and bias. A kernel computes it, or with `create_graph` other ops
/// do.
/// Cost: forward reads x twice, backward reads x and the cotangent twice. Statistics are float64 for every dtype.
/// Throws: ShapeError for a rank below 2, and for weights that do not fit, such as for channels last; DTypeError for
/// dtypes that differ otherwise or are not floating; ValueError unless eps ≥ 0.

namespace linnet {

/// (x − mean)/√(var + eps) · weight + bias for each channel. In training, mean and (biased) variance are those of the
/// channel in x. If running_mean and running_var are defined, they are edited in place: they become (1 − momentum) ·
/// running + momentum · (the mean, or the unbiased variance, of x). Otherwise, mean and variance are running_mean and
/// running_var. Undefined weight and bias stand for 1 and 0.
///
/// Shapes: x [N, C, …], all others [C].
/// Throws: ValueError in training for fewer than two values per channel, and otherwise for undefined running_mean and
/// running_var; AutogradError where these require a gradient.
/// Source: Ioffe & Szegedy 2015, "Batch normalization", algorithms 1 and 2.
Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight = {},
                  const Tensor& bias = {}, bool training = false, double momentum = 0.1, double eps = 1e-5,
                  Where where = {});

/// (x − mean)/√(var + eps) · weight + bias, with the mean and (biased) variance of each of `num_groups` groups of
/// neighbouring channels in each sample. Undefined weight and bias stand for 1 and 0.
///
/// Shapes: x [N, C, …], weight and bias [C].
/// Throws: ValueError unless C is a multiple of num_groups.
/// Source: Wu & He 2018, "Group normalization", eqs. 1–7.
Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5, Where where = {});

}  // namespace linnet
