#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "support/draws.h"
#include "support/format.h"
#include "support/users/conversions.h"

/// Users whose conversions depend on their latest behaviours, with a known probability.

namespace linnet::examples {
namespace {

constexpr int64_t kTopics = 20, kTopicWords = 12, kCommonWords = 60;
constexpr int64_t kPageWord = 2, kSearchWord = 3, kFirstWord = 4;  // after padding and the unknown word
constexpr int64_t kVocabulary = kFirstWord + kCommonWords + kTopics * kTopicWords;
constexpr int64_t kTextsOfKind = 30;         // of each topic: searches, pages and ads
constexpr int64_t kFewest = 5, kMost = 20;   // behaviours
constexpr int64_t kShare = 10, kRecent = 3;  // how many of the last behaviours count
constexpr double kTypical = 0.6, kFaithful = 0.8;

enum class Kind : uint8_t { search, page, ad };

/// The number of a text.
int32_t number_of(Kind kind, int64_t topic, int64_t i) {
  return static_cast<int32_t>((topic * 3 + static_cast<int64_t>(kind)) * kTextsOfKind + i);
}
int64_t topic_of(int32_t text) { return text / kTextsOfKind / 3; }
Kind kind_of(int32_t text) { return static_cast<Kind>(text / kTextsOfKind % 3); }

/// The words of all texts, in the order of their numbers.
Lists make_texts(Draws& draws, int64_t most_words) {
  Lists texts;
  for (int32_t text = 0; text < number_of(Kind::search, kTopics, 0); ++text) {
    std::vector<int32_t> words;
    if (kind_of(text) != Kind::ad) words.push_back(kind_of(text) == Kind::page ? kPageWord : kSearchWord);
    for (int64_t left = 3 + draws.below(6); left > 0; --left) {
      const int64_t typical = kCommonWords + topic_of(text) * kTopicWords + draws.below(kTopicWords);
      const int64_t common = draws.below(kCommonWords);
      words.push_back(static_cast<int32_t>(kFirstWord + (draws.uniform() < kTypical ? typical : common)));
    }
    words.resize(std::min(words.size(), static_cast<size_t>(most_words)));
    texts.append(words);
  }
  return texts;
}

/// σ(sharpness · (−3 + 6·share + recent))
double probability(const Conversion& user, double sharpness) {
  const std::span<const int32_t> all = user.behaviours;
  const auto last = [&](int64_t count) { return all.last(std::min(all.size(), static_cast<size_t>(count))); };
  const int64_t topic = topic_of(user.ad);
  const auto is_of_topic = [&](int32_t text) { return topic_of(text) == topic; };
  const auto is_search = [&](int32_t text) { return is_of_topic(text) && kind_of(text) == Kind::search; };
  const double share = static_cast<double>(std::ranges::count_if(last(kShare), is_of_topic)) /
                       static_cast<double>(last(kShare).size());
  const double recent = std::ranges::any_of(last(kRecent), is_search) ? 1 : 0;
  return 1 / (1 + std::exp(-sharpness * (-3 + 6 * share + recent)));
}

Conversion make_user(Draws& draws, double sharpness) {
  const int64_t liked[] = {draws.below(kTopics), draws.below(kTopics)};
  const auto topic = [&](double faithful) {
    return draws.uniform() < faithful ? liked[draws.below(2)] : draws.below(kTopics);
  };
  Conversion user;
  for (int64_t left = kFewest + draws.below(kMost - kFewest + 1); left > 0; --left) {
    const int64_t of = topic(kFaithful);
    const Kind kind = draws.below(2) == 0 ? Kind::search : Kind::page;
    user.behaviours.push_back(number_of(kind, of, draws.below(kTextsOfKind)));
  }
  const int64_t of = topic(0.5);
  user.ad = number_of(Kind::ad, of, draws.below(kTextsOfKind));
  user.probability = probability(user, sharpness);
  user.label = draws.uniform() < user.probability;
  return user;
}

}  // namespace

ConversionSet generated_conversions(const Settings& settings) {
  const UserSettings& sizes = settings.of_users;
  Draws draws({settings.lra.data_seed, 0});
  ConversionSet set;
  set.name =
      fmt::format("generated users ({} to learn from, {} each for dev and test, sharpness {}, seed {})",
                  format_count(sizes.users), format_count(sizes.test_users), sizes.sharpness, settings.lra.data_seed);
  set.vocabulary = kVocabulary;
  set.is_generated = true;
  set.items = make_texts(draws, sizes.title_words);
  const auto add = [&](std::vector<Conversion>& users, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      Conversion user = make_user(draws, sizes.sharpness);
      const int64_t surplus = std::ssize(user.behaviours) - sizes.history;
      if (surplus > 0) user.behaviours.erase(user.behaviours.begin(), user.behaviours.begin() + surplus);
      users.push_back(std::move(user));
    }
  };
  add(set.train, sizes.users);
  add(set.dev, sizes.test_users);
  add(set.test, sizes.test_users);
  return set;
}

}  // namespace linnet::examples
