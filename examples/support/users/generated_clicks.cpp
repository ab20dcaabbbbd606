#include "support/users/generated_clicks.h"

#include <fmt/format.h>

#include "support/format.h"

namespace linnet::examples {
namespace {

constexpr int64_t kTopics = 12, kTopicWords = 15;  // words that are typical of a topic
constexpr int64_t kFirstWord = 2;                  // after padding and the unknown word
constexpr int64_t kCommonWords = 80, kVocabulary = kFirstWord + kCommonWords + kTopics * kTopicWords;
constexpr int64_t kShortestTitle = 6, kLongestTitle = 12, kShortestHistory = 4, kLongestHistory = 10;
constexpr int64_t kCandidates = 1 + Clicks::kOthers, kTestCandidates = 20;
constexpr double kTypical = 0.35;  // share of a title's words that are typical of its topic
constexpr double kFaithful = 0.8;  // share of a user's clicks on the topics that they like

class ClickGenerator {
 public:
  explicit ClickGenerator(const Settings& settings)
      : items_(settings.of_users.items), draws_({settings.lra.data_seed, 0}) {}

  /// The words of a title; item i has topic i mod kTopics.
  std::vector<int32_t> title(int64_t item) {
    std::vector<int32_t> words;
    for (int64_t left = between(kShortestTitle, kLongestTitle); left > 0; --left) {
      const int64_t typical = kCommonWords + item % kTopics * kTopicWords + draws_.below(kTopicWords);
      const int64_t common = draws_.below(kCommonWords);
      words.push_back(static_cast<int32_t>(kFirstWord + (draws_.uniform() < kTypical ? typical : common)));
    }
    return words;
  }

  Impression impression(int64_t id, int64_t candidates) {
    const int64_t liked[] = {draws_.below(kTopics), draws_.below(kTopics)};
    const auto clicked = [&] { return draws_.uniform() < kFaithful ? of_topic(liked[draws_.below(2)]) : any(); };
    Impression impression{.id = id};
    for (int64_t left = between(kShortestHistory, kLongestHistory); left > 0; --left) {
      impression.history.push_back(clicked());
    }
    impression.candidates.push_back(clicked());
    while (std::ssize(impression.candidates) < candidates) impression.candidates.push_back(any());
    impression.clicked.resize(static_cast<size_t>(candidates));
    impression.clicked[0] = true;
    return impression;
  }

 private:
  int64_t between(int64_t least, int64_t most) { return least + draws_.below(most - least + 1); }
  int32_t any() { return static_cast<int32_t>(draws_.below(items_)); }
  int32_t of_topic(int64_t topic) {
    const int64_t count = (items_ - topic + kTopics - 1) / kTopics;
    return static_cast<int32_t>(topic + kTopics * draws_.below(count));
  }

  int64_t items_;
  Draws draws_;
};

}  // namespace

ClickSet generated_clicks(const Settings& settings) {
  const UserSettings& sizes = settings.of_users;
  ClickGenerator generator(settings);
  ClickSet set{.name = fmt::format("stand-in: generated clicks ({} users, {} to test, {} items, seed {})",
                                   format_count(sizes.users), format_count(sizes.test_users),
                                   format_count(sizes.items), settings.lra.data_seed),
               .vocabulary = kVocabulary,
               .items = {},
               .train = {},
               .dev = {}};
  for (int64_t i = 0; i < sizes.items; ++i) {
    const std::vector<int32_t> title = generator.title(i);
    const auto words = std::min(std::ssize(title), static_cast<ptrdiff_t>(sizes.title_words));
    set.items.append(std::span(title).first(static_cast<size_t>(words)));
  }
  const auto add = [&](std::vector<Impression>& impressions, int64_t count, int64_t candidates) {
    for (int64_t i = 0; i < count; ++i) {
      Impression made = generator.impression(i + 1, candidates);
      const int64_t surplus = std::ssize(made.history) - sizes.history;
      if (surplus > 0) made.history.erase(made.history.begin(), made.history.begin() + surplus);
      impressions.push_back(std::move(made));
    }
  };
  add(set.train, sizes.users, kCandidates);
  add(set.dev, sizes.test_users, kTestCandidates);
  return set;
}

}  // namespace linnet::examples
