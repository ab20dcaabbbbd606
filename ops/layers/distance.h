#pragma once

#include <linnet/core/tensor.h>
#include <linnet/ops/layers/loss.h>

/// Distances between vectors, and losses that compare them, with PyTorch's names and defaults.
///
/// Dtypes: floating. bfloat16 is computed in float32.
/// Gradient: any number of times; norms are those of `norm`.
/// Throws: ShapeError, DTypeError; ValueError for options out of range.

namespace linnet {

/// x / max(‖x‖_p, eps) along `dim`: vectors of length 1.
///
/// Cost: as `norm`, and one pass.
Tensor normalize(const Tensor& x, double p = 2, int64_t dim = 1, double eps = 1e-12, Where where = {});

/// ‖x1 − x2 + eps‖_p along the last dim. As in PyTorch, eps is added to each difference, so that equal vectors have a
/// gradient too.
///
/// Shapes: operands broadcast; the last dim disappears, or has size 1 with `keepdim`.
/// Cost: as `norm`, and two passes.
Tensor pairwise_distance(const Tensor& x1, const Tensor& x2, double p = 2, double eps = 1e-6, bool keepdim = false,
                         Where where = {});

/// ‖x1[i] − x2[j]‖_p for each pair of rows.
///
/// Shapes: x1 [..., P, M], x2 [..., R, M] → [..., P, R]; leading dims broadcast.
/// Cost: all differences are computed, P·R·M numbers. For p = 2 and long vectors, the roots of
/// ‖x1‖² + ‖x2‖² − 2·x1·x2ᵀ are faster, but lose digits where vectors lie close together.
Tensor cdist(const Tensor& x1, const Tensor& x2, double p = 2, Where where = {});

/// max(0, margin − target·(input1 − input2)): the first input should be larger by `margin` where the target is 1, and
/// the second one where it is −1.
///
/// Shapes: one shape → [], or that shape unreduced.
/// Throws: ValueError also for another target.
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin = 0,
                           Reduction reduction = Reduction::mean, Where where = {});

/// Options of `triplet_margin_loss`.
struct TripletMarginLossOptions {
  double margin = 1;  ///< how much farther the negative should be than the positive
  double p = 2;       ///< of the norm
  double eps = 1e-6;  ///< of pairwise_distance
  bool swap = false;  ///< whether the negative's distance from the positive counts where it is smaller
  Reduction reduction = Reduction::mean;  ///< how the losses of the triplets are reduced
};

/// max(0, d(anchor, positive) − d(anchor, negative) + margin), where d is pairwise_distance.
///
/// Shapes: three of one shape [..., D] → [], or [...] unreduced.
/// Source: Balntas et al. 2016, section 3.1, for `swap`.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options = {}, Where where = {});

}  // namespace linnet
