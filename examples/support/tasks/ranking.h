#pragma once

#include <cstdint>
#include <vector>

/// Ranking metrics for one list of candidates: `scores[i]` is candidate i's score, `clicked[i]` whether it was
/// clicked. Each function throws std::runtime_error unless there are as many scores as labels, all scores are finite
/// and at least one candidate was clicked; `auc` also needs one that was not.

namespace linnet::examples {

/// The area under the ROC curve: the probability that a clicked candidate scores above one that was not clicked.
/// Equal scores count half.
double auc(const std::vector<double>& scores, const std::vector<bool>& clicked);

/// The mean of 1 / rank over the clicked candidates, as in the evaluation of the MIND data set. Among equal scores
/// the later candidate ranks first, so that a model with equal scores gains nothing from the order of the candidates.
double mean_reciprocal_rank(const std::vector<double>& scores, const std::vector<bool>& clicked);

/// Normalised discounted cumulative gain of the first k candidates (Järvelin & Kekäläinen 2002): Σ clicked /
/// log2(rank + 1), divided by its value for the best order. Ties as in mean_reciprocal_rank.
double ndcg_at(int64_t k, const std::vector<double>& scores, const std::vector<bool>& clicked);

}  // namespace linnet::examples
