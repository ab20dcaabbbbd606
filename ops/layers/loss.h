#pragma once

#include <linnet/core/tensor.h>

/// Losses. Logits, inputs and targets of bfloat16 are taken as float32, of which the losses then are.

namespace linnet {

/// What becomes of the losses of the elements: all of them, their mean, or their sum.
enum class Reduction : uint8_t { none, mean, sum };

/// Which rows count in `cross_entropy`, and how.
struct CrossEntropyOptions {
  /// Rows with this target count neither in the loss nor in the mean.
  int64_t ignore_index = -100;
  /// ε: the target distribution is (1 − ε)·onehot + ε/C.
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
};

/// −log softmax(logits)[target], for logits [..., C] (the classes are the last dim) and int64 or int32
/// targets [...]. The mean is over the rows that are not ignored, NaN when there are none. Rank 0, or [...]
/// unreduced. Fused: one pass over the logits each way, and no second derivative. Throws ShapeError for targets of
/// another shape, DTypeError for logits that are not floating or targets that are not integers, IndexError for a
/// target outside 0 … C − 1 that is not `ignore_index`, and ValueError for a label_smoothing outside [0, 1].
Tensor cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options = {},
                     Where where = {});

/// (input − target)², of floating tensors. Throws ShapeError unless both have one shape (nothing broadcasts),
/// DTypeError unless both have one floating dtype.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean, Where where = {});

/// −(p·t·log σ(x) + (1 − t)·log(1 − σ(x))) for logits x, targets t in [0, 1] of one shape, and p =
/// `pos_weight`, 1 when undefined, which must broadcast to that shape. Stable for any logit. Throws ShapeError and
/// DTypeError as mse_loss.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets, const Tensor& pos_weight = {},
                                        Reduction reduction = Reduction::mean, Where where = {});

/// The share of rows of logits [..., C] whose largest entry is at the integer target [...]; NaN without rows. Throws
/// ShapeError and DTypeError as cross_entropy.
double accuracy(const Tensor& logits, const Tensor& targets, Where where = {});

}  // namespace linnet
