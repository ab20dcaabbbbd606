#include "support/tasks/click_data.h"

namespace linnet::examples {
namespace {

constexpr int64_t kTopics = 12, kTopicTokens = 15;  // tokens that are typical of a topic
constexpr int64_t kCommonTokens = ClickData::kVocabulary - kTopics * kTopicTokens;
constexpr int64_t kShortestTitle = 6, kShortestHistory = 4;
constexpr double kTypical = 0.35;  // share of a title's tokens that are typical of its topic
constexpr double kFaithful = 0.8;  // share of a user's clicks on the topics that they like

}  // namespace

ClickData::ClickData(const ClickDataConfig& config) : config_(config), rng_(config.seed) {
  make_titles();
  for (int64_t i = 0; i < config.users; ++i) train_.push_back(make_impression(config.candidates));
  for (int64_t i = 0; i < config.test_users; ++i) test_.push_back(make_impression(config.test_candidates));
}

/// Item i has topic i mod kTopics.
void ClickData::make_titles() {
  std::vector<int64_t> tokens;
  std::vector<bool> padding_mask;
  for (int64_t item = 0; item < config_.items; ++item) {
    const int64_t length = kShortestTitle + below(kTitle - kShortestTitle + 1);
    for (int64_t i = 0; i < kTitle; ++i) {
      const int64_t typical = kCommonTokens + item % kTopics * kTopicTokens + below(kTopicTokens);
      const int64_t common = below(kCommonTokens);
      tokens.push_back(happens(kTypical) ? typical : common);
      padding_mask.push_back(i < length);
    }
  }
  titles_ = tensor(tokens).reshape({config_.items, kTitle});
  title_mask_ = tensor(padding_mask).reshape({config_.items, kTitle});
}

Impression ClickData::make_impression(int64_t candidates) {
  const int64_t liked[] = {below(kTopics), below(kTopics)};
  const auto clicked = [&] { return happens(kFaithful) ? item_of(liked[below(2)]) : below(config_.items); };
  Impression impression;
  const int64_t length = kShortestHistory + below(kHistory - kShortestHistory + 1);
  for (int64_t i = 0; i < length; ++i) impression.history.push_back(clicked());
  impression.candidates.push_back(clicked());
  while (std::ssize(impression.candidates) < candidates) impression.candidates.push_back(below(config_.items));
  return impression;
}

int64_t ClickData::item_of(int64_t topic) {
  const int64_t count = (config_.items - topic + kTopics - 1) / kTopics;
  return topic + kTopics * below(count);
}

int64_t ClickData::below(int64_t limit) { return randint(0, limit, {1}, rng_).item<int64_t>(); }
bool ClickData::happens(double chance) { return rand({1}, rng_, DType::float64).item<double>() < chance; }

}  // namespace linnet::examples
