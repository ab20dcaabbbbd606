#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/draws.h"
#include "support/tasks/task.h"
#include "support/users/items.h"

namespace linnet::examples {

/// A list of news that a user was shown. News are numbers of items.
struct Impression {
  static constexpr int32_t kUnknown = -1;  ///< a candidate that there is no news of

  int64_t id = 0;
  std::vector<int32_t> history = {};     ///< news clicked earlier, the oldest first
  std::vector<int32_t> candidates = {};  ///< the news shown, some perhaps kUnknown
  std::vector<bool> clicked = {};        ///< of each candidate; empty where it is not known
};

/// Impressions to learn from and to test with.
struct ClickSet {
  std::string name;
  int64_t vocabulary = 0;  ///< number of ids of words
  Tensor embeddings = {};  ///< that the words begin with, [vocabulary, D]; undefined for none
  Lists items;             ///< the words of each item's title
  std::vector<Impression> train, dev;
};

/// The places of an impression's candidates that there is news of, by whether they were clicked.
struct KnownCandidates {
  std::vector<int32_t> clicked, others;
};
KnownCandidates known_candidates(const Impression& impression);
/// Whether an impression has candidates of both kinds. Others can neither be learned from nor tested with.
bool has_both_kinds(const Impression& impression);

/// `count` of `others`, which are not empty, in a random order. Where there are fewer, they are repeated.
std::vector<int32_t> sample_others(std::span<const int32_t> others, int64_t count, Draws& draws);

/// The clicks of impressions as examples to learn from: the click, which is target 0, with kOthers unclicked
/// candidates of its impression, drawn anew in each epoch (Wu et al. 2021, section 4.1).
class Clicks : public nn::Dataset {
 public:
  static constexpr int64_t kOthers = 4;

  /// The set must outlive it.
  explicit Clicks(const ClickSet& set);

  int64_t size() const override { return std::ssize(clicks_); }
  nn::Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

 private:
  const ClickSet& set_;
  std::vector<std::pair<int64_t, int32_t>> clicks_;  // impression, and place among its candidates
  std::vector<std::vector<int32_t>> others_;         // of each impression, KnownCandidates::others
};

/// The means over impressions of AUC, MRR, nDCG@5 and nDCG@10.
class RankingMeasures {
 public:
  /// Adds an impression with the scores of its candidates. Candidates without news do not count, and neither do
  /// impressions without both kinds.
  void add(const Impression& impression, const std::vector<double>& scores);
  Measures means() const;  ///< empty where no impression counts

 private:
  std::array<double, 4> sums_ = {};
  double count_ = 0;
};

/// The rank of each candidate, from 1 for the highest score. Of equal scores the later candidate has the better rank;
/// candidates without news come last.
std::vector<int64_t> ranks(const Impression& impression, std::vector<double> scores);

}  // namespace linnet::examples
