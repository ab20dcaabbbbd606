#pragma once

#include <linnet/core/tensor.h>

/// Losses.
///
/// Dtypes: floating. bfloat16 is converted to float32, so its losses are float32.

namespace linnet {

/// How the elements' losses are reduced: not at all, to their mean, to their sum, or, in `kl_div` alone, to their sum
/// divided by the size of the first dim.
enum class Reduction : uint8_t { none, mean, sum, batchmean };

/// Options of `cross_entropy`.
struct CrossEntropyOptions {
  /// Rows with this target are left out of the loss and the mean.
  int64_t ignore_index = -100;
  /// ε: the target distribution is (1 − ε)·onehot + ε/C.
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;  ///< how the losses of the rows are reduced
};

/// −log softmax(logits)[target], where the classes are the last dim; in PyTorch they are dim 1, so pixels [N, C, H,
/// W] need permute(logits, {0, 2, 3, 1}) here. The mean is over the rows that are not ignored, and NaN when there are
/// none. For a factor for each class, pass log_softmax(logits, -1) to nll_loss, which has `weight`. Where targets are
/// probabilities p of the classes, which PyTorch takes too, write -(p * log_softmax(logits, -1)).sum(-1).mean().
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

/// Options of `nll_loss`.
struct NllLossOptions {
  /// A factor for the rows of each class, [C]; 1 when undefined. The mean divides by the sum of the rows' factors.
  Tensor weight = {};
  /// Rows with this target are left out of the loss and the mean.
  int64_t ignore_index = -100;
  Reduction reduction = Reduction::mean;  ///< how the losses of the rows are reduced
};

/// −log_probs[target], where the classes are the last dim and log_probs is the result of log_softmax. `cross_entropy`
/// of the logits gives the same and is faster. The mean is NaN when all rows are ignored.
///
/// Shapes: log_probs [..., C], targets [...] → [], or [...] unreduced.
/// Dtypes: targets are int64 or int32.
/// Gradient: any number of times, to `weight` too.
/// Throws: as cross_entropy; ShapeError for a `weight` of another shape than [C].
Tensor nll_loss(const Tensor& log_probs, const Tensor& targets, const NllLossOptions& options = {}, Where where = {});

/// (input − target)². Shapes do not broadcast.
///
/// Shapes: one shape → [], or that shape unreduced.
/// Gradient: any number of times.
/// Throws: ShapeError, DTypeError.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean, Where where = {});

/// |input − target|, otherwise as mse_loss. The gradient is that of `abs`.
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean, Where where = {});

/// With d = input − target: d²/2 where |d| ≤ delta, delta·(|d| − delta/2) elsewhere. Otherwise as mse_loss.
///
/// Throws: ValueError too, unless delta is above 0.
/// Source: Huber 1964.
Tensor huber_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean, double delta = 1,
                  Where where = {});

/// huber_loss with delta = beta, divided by beta; l1_loss for a beta of 0.
///
/// Throws: ValueError too, for a beta below 0.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
                      double beta = 1, Where where = {});

/// target·(log target − input), the terms of the Kullback-Leibler divergence of the target's distribution from the
/// one whose logarithms are `input`; with `log_target` the target is logarithms too. The divergence is
/// `Reduction::batchmean`, while the mean divides by the number of classes as well. A target of 0 adds 0,
/// also where the input is −∞ (PyTorch: NaN).
///
/// Shapes: one shape → [], or that shape unreduced.
/// Gradient: any number of times; to a target of 0 as if 0·log 0, and 0 times an infinite input, were constant
/// (PyTorch: NaN).
/// Throws: ShapeError; DTypeError, which says what to do with targets that are classes.
Tensor kl_div(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean,
              bool log_target = false, Where where = {});

/// Options of `gaussian_nll_loss`.
struct GaussianNllLossOptions {
  bool full = false;                      ///< whether to add log(2π)/2, which changes no gradient
  double eps = 1e-6;                      ///< smaller variances count as this, also in their gradient
  Reduction reduction = Reduction::mean;  ///< how the losses of the elements are reduced
};

/// (log var + (input − target)²/var)/2, the negative logarithm of the target's density where `input` is the mean and
/// `var` the variance of a normal distribution.
///
/// Shapes: input and target have one shape, and `var` has it too, or has size 1 in some dims, or lacks the last dim:
/// then elements share a variance. → [], or the shape of input unreduced.
/// Gradient: any number of times; finite where only the square overflows (PyTorch's is not).
/// Cost: the host waits for a check of `var`, which a Recording leaves out.
/// Throws: ShapeError and DTypeError; ValueError for a negative variance, which counts as eps in a Recording.
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNllLossOptions& options = {}, Where where = {});

/// x1·x2 / (max(‖x1‖, eps)·max(‖x2‖, eps)) along `dim`, the cosine of the angle between x1 and x2.
///
/// Shapes: operands broadcast; `dim` disappears.
/// Gradient: any number of times. Norms are those of `norm`: where PyTorch's overflow or vanish, these do not.
/// Throws: ShapeError, DTypeError.
Tensor cosine_similarity(const Tensor& x1, const Tensor& x2, int64_t dim = 1, double eps = 1e-8, Where where = {});

/// 1 − cos for pairs that belong together (target 1), max(0, cos − margin) for others (target −1), where cos is the
/// cosine_similarity of their vectors.
///
/// Shapes: x1 and x2 [..., D], target [...] → [], or [...] unreduced.
/// Dtypes: targets are of any dtype.
/// Gradient: any number of times, but none to targets.
/// Throws: ShapeError and DTypeError; ValueError for another target.
Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target, double margin = 0,
                             Reduction reduction = Reduction::mean, Where where = {});

/// With x = input, the distance of a pair: x for pairs that belong together (target 1), max(0, margin − x) for others
/// (target −1).
///
/// Shapes: one shape → [], or that shape unreduced.
/// Dtypes, Gradient, Throws: as cosine_embedding_loss. A NaN has a gradient as if below the margin (PyTorch: 0).
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, double margin = 1,
                            Reduction reduction = Reduction::mean, Where where = {});

/// Options of `binary_cross_entropy_with_logits` and of `binary_cross_entropy`, which refuses `pos_weight`.
struct BinaryCrossEntropyOptions {
  /// A factor for each loss; 1 when undefined. The mean still divides by the number of losses.
  Tensor weight = {};
  /// A factor p for the part of each loss that targets of 1 have; 1 when undefined.
  Tensor pos_weight = {};
  Reduction reduction = Reduction::mean;  ///< how the losses of the elements are reduced
};

/// −(p·t·log σ(x) + (1 − t)·log(1 − σ(x))) for logits x, targets t in [0, 1] and p = `pos_weight`. Stable for any
/// logit.
///
/// Shapes: logits and targets have one shape, to which `weight` and `pos_weight` broadcast → [], or that shape
/// unreduced.
/// Gradient: any number of times, to the factors too. To the logits, (1 − t) − σ(−x): exact to ε, also near 0.
/// Throws: ShapeError, DTypeError.
Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& targets,
                                        const BinaryCrossEntropyOptions& options = {}, Where where = {});

/// −(t·log x + (1 − t)·log(1 − x)) for probabilities x = input and targets t, both in [0, 1]. Logarithms below −100
/// count as −100. Where the probabilities are sigmoids, binary_cross_entropy_with_logits of the logits loses fewer
/// digits. A probability outside [0, 1] gives NaN; PyTorch throws, which has to wait for a GPU.
///
/// Shapes: input and target have one shape, to which `weight` broadcasts → [], or that shape unreduced.
/// Gradient: any number of times, to `weight` too. To the input it is (x − t)/max(x·(1 − x), 1e-12), so that it is
/// finite at 0 and 1; to the target log(1 − x) − log x, which is not.
/// Throws: ShapeError and DTypeError; ValueError for a `pos_weight`.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target, const BinaryCrossEntropyOptions& options = {},
                            Where where = {});

/// The share of rows of logits whose largest entry is at the target. Rows whose target is `ignore_index` are left
/// out; NaN when no row is left.
///
/// Shapes: logits [..., C], targets [...].
/// Dtypes: targets are int64 or int32.
/// Throws: ShapeError, DTypeError and IndexError as cross_entropy.
double accuracy(const Tensor& logits, const Tensor& targets, int64_t ignore_index = -100, Where where = {});

}  // namespace linnet
