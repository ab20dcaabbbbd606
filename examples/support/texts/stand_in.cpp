#include "support/texts/stand_in.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "support/draws.h"
#include "support/lra/documents.h"

namespace linnet::examples {
namespace {

constexpr int64_t kCommon = 200;  // words of no topic
constexpr int64_t kTrain = 4000, kDev = 500, kTest = 500;

/// The number of words of a text.
int64_t length_of_text(Draws& draws) { return 20 + draws.below(181); }

std::string topic_name(int64_t topic) { return fmt::format("topic {}", topic + 1); }

LabelledText topic_text(int64_t classes, Draws draws) {
  constexpr int64_t kOwn = 20, kListed = 30;  // a list has the first words of the next topic's too
  const int64_t main = draws.below(classes);
  std::vector<int64_t> counts(static_cast<size_t>(classes));
  std::string text;
  for (int64_t left = length_of_text(draws); left > 0; --left) {
    if (draws.below(2) == 0) {
      text += made_up_word(draws.below(kCommon)) + ' ';
      continue;
    }
    const int64_t topic = draws.below(4) == 0 ? main : draws.below(classes);
    ++counts[static_cast<size_t>(topic)];
    text += made_up_word(kCommon + (topic * kOwn + draws.below(kListed)) % (classes * kOwn)) + ' ';
  }
  const int64_t commonest = std::ranges::max_element(counts) - counts.begin();
  return {std::move(text), topic_name(commonest), ""};
}

LabelledText ordered_text(Draws draws) {
  std::vector<int64_t> words(static_cast<size_t>(length_of_text(draws)));
  for (int64_t& word : words) word = draws.below(kCommon);
  const int64_t count = std::ssize(words), first = draws.below(count - 1),
                second = first + 1 + draws.below(count - 1 - first);
  const int64_t label = draws.below(2);
  words[static_cast<size_t>(first)] = kCommon + label;
  words[static_cast<size_t>(second)] = kCommon + 1 - label;
  std::string text;
  for (const int64_t word : words) text += made_up_word(word) + ' ';
  return {std::move(text), made_up_word(kCommon + label) + " first", ""};
}

/// Parts whose texts `make` makes, each from its own random stream.
template <class Make>
TextParts made_parts(uint64_t seed, const Make& make) {
  uint64_t stream = 0;
  const auto part = [&](int64_t count) {
    std::vector<LabelledText> texts;
    for (int64_t i = 0; i < count; ++i) {
      texts.push_back(make(Draws({seed, stream++})));
      texts.back().place = fmt::format("generated text {}", stream);
    }
    return texts;
  };
  TextParts parts;
  parts.train = part(kTrain);
  parts.dev = part(kDev);
  parts.test = part(kTest);
  return parts;
}

}  // namespace

TextParts topic_texts(int64_t classes, uint64_t seed) {
  return made_parts(seed, [&](const Draws& draws) { return topic_text(classes, draws); });
}

TextParts ordered_texts(uint64_t seed) {
  return made_parts(seed, [](const Draws& draws) { return ordered_text(draws); });
}

}  // namespace linnet::examples
