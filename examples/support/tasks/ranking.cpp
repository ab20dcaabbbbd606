#include "support/tasks/ranking.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include <fmt/format.h>

namespace linnet::examples {
namespace {

void check(const std::vector<double>& scores, const std::vector<bool>& clicked) {
  if (scores.size() != clicked.size()) {
    throw std::runtime_error(fmt::format("{} scores but {} labels", scores.size(), clicked.size()));
  }
  for (const double score : scores) {
    if (!std::isfinite(score)) throw std::runtime_error(fmt::format("a score is {}", score));
  }
  if (std::count(clicked.begin(), clicked.end(), true) == 0) throw std::runtime_error("no candidate was clicked");
}

/// `clicked` in the order of falling scores.
std::vector<bool> ranked(const std::vector<double>& scores, const std::vector<bool>& clicked) {
  std::vector<size_t> order(scores.size());
  std::iota(order.rbegin(), order.rend(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<bool> result;
  for (const size_t i : order) result.push_back(clicked[i]);
  return result;
}

/// Σ clicked / log2(rank + 1) over the first k candidates.
double gain(const std::vector<bool>& clicked, int64_t k) {
  double sum = 0;
  for (int64_t i = 0; i < std::min<int64_t>(k, std::ssize(clicked)); ++i) {
    if (clicked[static_cast<size_t>(i)]) sum += 1 / std::log2(static_cast<double>(i + 2));
  }
  return sum;
}

}  // namespace

double auc(const std::vector<double>& scores, const std::vector<bool>& clicked) {
  check(scores, clicked);
  double wins = 0, pairs = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    for (size_t j = 0; j < scores.size(); ++j) {
      if (!clicked[i] || clicked[j]) continue;
      ++pairs;
      wins += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
    }
  }
  if (pairs == 0) throw std::runtime_error("all candidates were clicked, so there is nothing to tell apart");
  return wins / pairs;
}

double mean_reciprocal_rank(const std::vector<double>& scores, const std::vector<bool>& clicked) {
  check(scores, clicked);
  const std::vector<bool> order = ranked(scores, clicked);
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) sum += order[i] ? 1 / static_cast<double>(i + 1) : 0;
  return sum / static_cast<double>(std::count(order.begin(), order.end(), true));
}

double ndcg_at(int64_t k, const std::vector<double>& scores, const std::vector<bool>& clicked) {
  check(scores, clicked);
  std::vector<bool> best = clicked;
  std::sort(best.begin(), best.end(), std::greater<>());
  return gain(ranked(scores, clicked), k) / gain(best, k);
}

}  // namespace linnet::examples
