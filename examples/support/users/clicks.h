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
  static constexpr int32_t kUnknown = -1;  ///< a candidate that the news files do not have

  int64_t id = 0;
  std::vector<int32_t> history = {};     ///< news clicked earlier, the oldest first
  std::vector<int32_t> candidates = {};  ///< the news shown, some perhaps kUnknown
  std::vector<bool> clicked = {};        ///< of each candidate; empty if it is not known
};

/// Impressions to train on and to test with.
struct ClickSet {
  std::string name;
  int64_t vocabulary = 0;  ///< number of ids of words
  Tensor embeddings = {};  ///< initial embeddings of the words, [vocabulary, D]; undefined for none
  Lists items;             ///< the words of each item's title
  std::vector<Impression> train, dev;
};

/// The indices of an impression's candidates that the news files have, by whether they were clicked.
struct KnownCandidates {
  std::vector<int32_t> clicked, others;
};
KnownCandidates known_candidates(const Impression& impression);
/// Whether an impression has candidates of both kinds. Other impressions are of no use to train on or to test with.
bool has_both_kinds(const Impression& impression);

/// `count` of `others`, which must not be empty, in a random order. If there are fewer, they are repeated.
std::vector<int32_t> sample_others(std::span<const int32_t> others, int64_t count, Draws& draws);

/// The clicks of impressions as training examples. An example is a click, which is target 0, and kOthers unclicked
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
  /// Adds an impression with the scores of its candidates. Candidates without news do not count, nor do
  /// impressions that lack one of the two kinds.
  void add(const Impression& impression, const std::vector<double>& scores);
  Measures means() const;  ///< empty if no impression counts

 private:
  std::array<double, 4> sums_ = {};
  double count_ = 0;
};

/// The rank of each candidate, from 1 for the highest score. Of equal scores the later candidate has the better rank;
/// candidates without news come last.
std::vector<int64_t> ranks(const Impression& impression, std::vector<double> scores);

}  // namespace linnet::examples
