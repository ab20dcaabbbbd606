#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/metrics.h>

namespace linnet::nn {
namespace {

struct Candidate {
  double score, target;
};

/// The candidates from the highest score to the lowest; of equal scores the later candidate is first. It checks that
/// targets are whole numbers from 0 to `highest` and that at least one is above 0.
std::vector<Candidate> ranked(const Tensor& scores, const Tensor& targets, double highest) {
  if (scores.rank() != 1 || scores.shape() != targets.shape()) {
    throw ShapeError(fmt::format("scores and targets must both be [N], but have shapes {} and {}{}",
                                 to_string(scores.shape()), to_string(targets.shape()),
                                 scores.rank() > 1 ? "; give the lists of candidates one by one" : ""));
  }
  const std::vector<double> score = scores.to_vector<double>(), target = targets.to_vector<double>();
  std::vector<Candidate> candidates;
  for (size_t i = score.size(); i-- > 0;) {
    if (std::isnan(score[i])) throw ValueError(fmt::format("score {} is NaN; has the training diverged?", i));
    if (!(target[i] >= 0 && target[i] <= highest) || target[i] != std::floor(target[i])) {
      throw ValueError(fmt::format(
          "target {} is {}; {}", i, target[i],
          highest == 1 ? "it must be 0 or 1" : fmt::format("it must be a whole number from 0 to {}", highest)));
    }
    candidates.push_back({score[i], target[i]});
  }
  if (std::ranges::none_of(target, [](double value) { return value > 0; })) {
    throw ValueError(fmt::format("none of the {} targets is above 0, so there is nothing to find; leave the list out",
                                 target.size()));
  }
  std::ranges::stable_sort(candidates, std::greater<>(), &Candidate::score);
  return candidates;
}

/// The numbers of positives and negatives among candidates with the same score.
struct Tie {
  double positives = 0, negatives = 0;
};

/// The ties from the highest score down.
std::vector<Tie> ties_of(const std::vector<Candidate>& candidates) {
  std::vector<Tie> ties;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (i == 0 || candidates[i].score != candidates[i - 1].score) ties.emplace_back();
    ++(candidates[i].target > 0 ? ties.back().positives : ties.back().negatives);
  }
  return ties;
}

/// Σ (2^y − 1)/log2(rank + 1) over the first k candidates.
double discounted_gain(const std::vector<Candidate>& candidates, int64_t k) {
  double sum = 0;
  for (size_t i = 0; i < std::min(candidates.size(), static_cast<size_t>(k)); ++i) {
    sum += (std::exp2(candidates[i].target) - 1) / std::log2(static_cast<double>(i + 2));
  }
  return sum;
}

}  // namespace

double roc_auc(const Tensor& scores, const Tensor& targets, Where where) {
  const Call call("roc_auc", where);
  double wins = 0, positives = 0, negatives = 0;
  for (const Tie& tie : ties_of(ranked(scores, targets, 1))) {
    wins += tie.negatives * (positives + tie.positives / 2);
    positives += tie.positives;
    negatives += tie.negatives;
  }
  if (negatives == 0) throw ValueError("all targets are 1, so there is nothing to tell apart; leave the list out");
  return wins / (positives * negatives);
}

double average_precision(const Tensor& scores, const Tensor& targets, Where where) {
  const Call call("average_precision", where);
  double sum = 0, positives = 0, taken = 0;
  for (const Tie& tie : ties_of(ranked(scores, targets, 1))) {
    positives += tie.positives;
    taken += tie.positives + tie.negatives;
    sum += tie.positives * (positives / taken);  // recall's increase times precision, divided by `positives` below
  }
  return sum / positives;
}

double mean_reciprocal_rank(const Tensor& scores, const Tensor& targets, Where where) {
  const Call call("mean_reciprocal_rank", where);
  const std::vector<Candidate> candidates = ranked(scores, targets, 1);
  double sum = 0, positives = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    sum += candidates[i].target / static_cast<double>(i + 1);
    positives += candidates[i].target;
  }
  return sum / positives;
}

double ndcg(const Tensor& scores, const Tensor& targets, int64_t k, Where where) {
  const Call call("ndcg", where);
  if (k < 1) throw ValueError(fmt::format("k is {}; it must be at least 1", k));
  constexpr double kHighestGrade = 1000;  // because 2^1024 overflows
  std::vector<Candidate> candidates = ranked(scores, targets, kHighestGrade);
  const double gain = discounted_gain(candidates, k);
  std::ranges::sort(candidates, std::greater<>(), &Candidate::target);
  return gain / discounted_gain(candidates, k);
}

}  // namespace linnet::nn
