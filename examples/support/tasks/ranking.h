#pragma once

#include <cstdint>
#include <vector>

/// How well scores rank what was clicked: of one list of candidates, `clicked` says which of them. Each throws
/// std::runtime_error unless there are as many scores as labels, all scores finite, and at least one candidate
/// clicked and (auc) one not.

namespace linnet::examples {

/// The chance that a clicked candidate scores above one that was not; equal scores count half (the area under the ROC
/// curve).
double auc(const std::vector<double>& scores, const std::vector<bool>& clicked);

/// The mean over the clicked candidates of 1 / rank, as the MIND data set's evaluation has it. Of equal scores the
/// later one ranks first, so that a model which scores all alike gains nothing from the order it is given.
double mean_reciprocal_rank(const std::vector<double>& scores, const std::vector<bool>& clicked);

/// Normalised discounted cumulative gain of the first k (Järvelin & Kekäläinen 2002): Σ clicked / log2(rank + 1) over
/// that of the best order. Ties as above.
double ndcg_at(int64_t k, const std::vector<double>& scores, const std::vector<bool>& clicked);

}  // namespace linnet::examples
