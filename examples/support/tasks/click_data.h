#pragma once

#include <cstdint>
#include <vector>

#include <linnet/linnet.h>

namespace linnet::examples {

/// One list of candidates that was shown to a user, who clicked the first of them.
struct Impression {
  std::vector<int64_t> history;     ///< items that the user clicked before, of different numbers
  std::vector<int64_t> candidates;  ///< the first was clicked, the others not
};

struct ClickDataConfig {
  int64_t users = 4000;
  int64_t test_users = 500;  ///< beside those
  int64_t items = 1000;
  int64_t candidates = 5;  ///< of an impression in training
  int64_t test_candidates = 20;
  uint64_t seed = 1337;
};

/// Clicks as a small generative story tells them. Every item has a topic, and a title of tokens, some typical of its
/// topic and some that any title may have. Every user likes two topics: most of the items clicked are from these, and
/// some from anywhere, so that no model ranks perfectly.
class ClickData {
 public:
  static constexpr int64_t kVocabulary = 260, kTitle = 12, kHistory = 10;  ///< the most tokens, and items

  explicit ClickData(const ClickDataConfig& config);

  const std::vector<Impression>& train() const { return train_; }
  const std::vector<Impression>& test() const { return test_; }
  /// Tokens of every title, int64 [items, kTitle], and which are no padding, bool of the same shape.
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
