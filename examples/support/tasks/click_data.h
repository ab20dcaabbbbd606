#pragma once

#include <cstdint>
#include <vector>

#include <linnet/linnet.h>

namespace linnet::examples {

/// A list of candidates that a user was shown; the user clicked the first one.
struct Impression {
  std::vector<int64_t> history;     ///< items clicked earlier; the number varies between users
  std::vector<int64_t> candidates;  ///< the first was clicked, the others not
};

struct ClickDataConfig {
  int64_t users = 4000;
  int64_t test_users = 500;  ///< in addition to `users`
  int64_t items = 1000;
  int64_t candidates = 5;  ///< in each impression for training
  int64_t test_candidates = 20;
  uint64_t seed = 1337;
};

/// Clicks drawn from a small generative model. Every item has a topic and a title, whose tokens are typical of the
/// topic or common to all titles. Every user likes two topics: most of their clicks are on items of these, the others
/// on any item, so that no model ranks perfectly.
class ClickData {
 public:
  static constexpr int64_t kVocabulary = 260;
  static constexpr int64_t kTitle = 12, kHistory = 10;  ///< the most tokens in a title, items in a history

  explicit ClickData(const ClickDataConfig& config);

  const std::vector<Impression>& train() const { return train_; }
  const std::vector<Impression>& test() const { return test_; }
  /// The tokens of every title, int64 [items, kTitle], and the padding mask, bool [items, kTitle].
  const Tensor& titles() const { return titles_; }
  const Tensor& title_mask() const { return title_mask_; }

 private:
  void make_titles();
  Impression make_impression(int64_t candidates);
  int64_t item_of(int64_t topic);
  int64_t below(int64_t limit);
  bool happens(double chance);

  ClickDataConfig config_;
  Generator rng_;
  std::vector<Impression> train_, test_;
  Tensor titles_, title_mask_;
};

}  // namespace linnet::examples
