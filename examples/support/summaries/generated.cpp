#include <algorithm>

#include <fmt/format.h>

#include "support/draws.h"
#include "support/summaries/load.h"

namespace linnet::examples {
namespace {

Article letters(RandomKey key, bool sorted) {
  constexpr int64_t kLeast = 10, kMost = 20, kMostCapitals = 8;
  Draws draws(key);
  Article article;
  const int64_t length = kLeast + draws.below(kMost - kLeast + 1);
  for (int64_t i = 0; i < length; ++i) {
    const bool marked = (draws.below(3) == 0 && std::ssize(article.summary) < kMostCapitals) ||
                        (i + 1 == length && article.summary.empty());
    const auto letter = static_cast<char>((marked ? 'A' : 'a') + draws.below(26));
    article.text += letter;
    if (marked) article.summary += letter;
  }
  if (sorted) std::ranges::sort(article.summary);
  return article;
}

}  // namespace

ArticleParts generated_articles(bool sorted, uint64_t seed) {
  constexpr int64_t kTrain = 100'000, kDev = 500, kTest = 1000;
  ArticleParts parts;
  parts.name = fmt::format("capital letters {} (seed {})", sorted ? "to sort" : "to copy", seed);
  parts.generated = true;
  uint64_t next = 0;
  for (auto [part, count] :
       {std::pair{&parts.train, kTrain}, std::pair{&parts.dev, kDev}, std::pair{&parts.test, kTest}}) {
    for (int64_t i = 0; i < count; ++i) part->push_back(letters({seed, next++}, sorted));
  }
  return parts;
}

}  // namespace linnet::examples
