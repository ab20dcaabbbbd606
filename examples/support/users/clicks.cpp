#include "support/users/clicks.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_map>

#include <fmt/format.h>

namespace linnet::examples {

KnownCandidates known_candidates(const Impression& impression) {
  KnownCandidates known;
  for (size_t i = 0; i < impression.candidates.size(); ++i) {
    if (impression.candidates[i] == Impression::kUnknown) continue;
    (impression.clicked[i] ? known.clicked : known.others).push_back(static_cast<int32_t>(i));
  }
  return known;
}

bool has_both_kinds(const Impression& impression) {
  const KnownCandidates known = known_candidates(impression);
  return !known.clicked.empty() && !known.others.empty();
}

std::vector<int32_t> sample_others(std::span<const int32_t> others, int64_t count, Draws& draws) {
  std::unordered_map<int64_t, int32_t> moved;  // the places whose values differ from those of `others`
  const auto at = [&](int64_t place) -> int32_t& {
    return moved.try_emplace(place, others[static_cast<size_t>(place)]).first->second;
  };
  std::vector<int32_t> drawn;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t taken = i % std::ssize(others);  // Fisher and Yates, begun again after the last one
    const int64_t chosen = taken + draws.below(std::ssize(others) - taken);
    drawn.push_back(at(chosen));
    std::swap(at(taken), at(chosen));
  }
  return drawn;
}

Clicks::Clicks(const ClickSet& set) : set_(set) {
  for (int64_t i = 0; i < std::ssize(set.train); ++i) {
    KnownCandidates known = known_candidates(set.train[static_cast<size_t>(i)]);
    for (const int32_t place : known.clicked) {
      if (!known.others.empty()) clicks_.emplace_back(i, place);
    }
    others_.push_back(std::move(known.others));
  }
}

nn::Batch Clicks::collate(std::span<const int64_t> indices, RandomKey key) const {
  Draws draws(key);
  std::vector<UserAndCandidates> users;
  for (const int64_t index : indices) {
    if (index < 0 || index >= size()) throw IndexError(fmt::format("click {} of {}", index, size()));
    const auto& [number, place] = clicks_[static_cast<size_t>(index)];
    const Impression& impression = set_.train[static_cast<size_t>(number)];
    std::vector<int32_t> candidates = sample_others(others_[static_cast<size_t>(number)], kOthers, draws);
    candidates.insert(candidates.begin(), place);
    for (int32_t& candidate : candidates) candidate = impression.candidates[static_cast<size_t>(candidate)];
    users.push_back({impression.history, std::move(candidates)});
  }
  return user_batch(set_.items, users, zeros({std::ssize(indices)}, DType::int64));
}

void RankingMeasures::add(const Impression& impression, const std::vector<double>& scores) {
  if (!has_both_kinds(impression)) return;
  std::vector<double> known;
  std::vector<bool> clicked;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (impression.candidates[i] == Impression::kUnknown) continue;
    known.push_back(scores[i]);
    clicked.push_back(impression.clicked[i]);
  }
  const Tensor of = tensor(known), targets = tensor(clicked);
  sums_[0] += nn::roc_auc(of, targets);
  sums_[1] += nn::mean_reciprocal_rank(of, targets);
  sums_[2] += nn::ndcg(of, targets, 5);
  sums_[3] += nn::ndcg(of, targets, 10);
  ++count_;
}

Measures RankingMeasures::means() const {
  Measures means;
  if (count_ == 0) return means;
  constexpr std::array kNames{"AUC", "MRR", "nDCG@5", "nDCG@10"};
  for (size_t i = 0; i < kNames.size(); ++i) means.emplace_back(kNames[i], sums_[i] / count_);
  return means;
}

std::vector<int64_t> ranks(const Impression& impression, std::vector<double> scores) {
  for (size_t i = 0; i < scores.size(); ++i) {
    if (impression.candidates[i] == Impression::kUnknown) scores[i] = -std::numeric_limits<double>::infinity();
  }
  std::vector<size_t> order(scores.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<int64_t> ranks(scores.size());
  for (size_t place = 0; place < order.size(); ++place) ranks[order[place]] = static_cast<int64_t>(place) + 1;
  return ranks;
}

}  // namespace linnet::examples
