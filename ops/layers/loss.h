#pragma once

#include <linnet/core/tensor.h>

/// Losses.
///
/// Dtypes: floating. bfloat16 is converted to float32, so its losses are float32.

namespace linnet {

/// How the elements' losses are reduced: not at all, to their mean, or to their sum.
enum class Reduction : uint8_t { none, mean, sum };

/// Options of `cross_entropy`.
struct CrossEntropyOptions {
  /// Rows with this target are left out of the loss and the mean.
  int64_t ignore_index = -100;
  /// ε: the target distribution is (1 − ε)·onehot + ε/C.
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
};

/// −log softmax(logits)[target], where the classes are the last dim. The mean is over the rows that are not ignored,
/// and NaN when there are none.
///
/// Shapes: logits [..., C], targets [...] → [], or [...] unreduced.
/// Dtypes: targets are int64 or int32.
/// Gradient: once (fused).
/// Cost: one pass over the logits, forward and backward.
/// Throws: ShapeError for targets of another shape; DTypeError for logits that are not floating or targets that are
/// not integers; IndexError for a target outside 0 … C − 1 that is not `ignore_index`; ValueError for a
/// label_smoothing outside [0, 1].
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {},
                     Where where = {});

/// (input − target)². Shapes do not broadcast.
///
/// Shapes: one shape → [], or that shape unreduced.
/// Gradient: any number of times.
/// Throws: ShapeError, DTypeError.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean, Where where = {});

/// −(p·t·log σ(x) + (1 − t)·log(1 − σ(x))) for logits x, targets t in [0, 1] and p = `pos_weight`, 1 when undefined.
/// Stable for any logit.
///
/// Shapes: logits and targets have one shape, to which `pos_weight` broadcasts.
/// Gradient: any number of times.
/// Throws: ShapeError and DTypeError as mse_loss.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets, const Tensor& pos_weight = {},
                                        Reduction reduction = Reduction::mean, Where where = {});

/// The share of rows of logits whose largest entry is at the target; NaN without rows.
///
/// Shapes: logits [..., C], targets [...].
/// Dtypes: targets are int64 or int32.
/// Throws: ShapeError and DTypeError as cross_entropy.
double accuracy(const Tensor& logits, const Tensor& targets, Where where = {});

}  // namespace linnet
