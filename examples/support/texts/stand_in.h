#pragma once

#include <cstdint>

#include "support/texts/parts.h"

/// Generated texts, which stand in for public sets that are absent. 4,000 train, 500 are dev and 500 test.

namespace linnet::examples {

/// Texts of 20 to 200 words about `classes` topics. A topic has a list of words, which it shares with the topics
/// beside it, and there are words of none. The label is the topic of most words, so that a bag of words reaches about
/// nine in ten.
TextParts topic_texts(int64_t classes, uint64_t seed);

/// Texts of 20 to 200 words, with two words among them that all texts have. The label is which of these comes first,
/// so that what ignores the order of words reaches one in two.
TextParts ordered_texts(uint64_t seed);

}  // namespace linnet::examples
