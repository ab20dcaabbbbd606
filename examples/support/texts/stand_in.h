#pragma once

#include <cstdint>

#include "support/texts/parts.h"

/// Generated texts, which stand in for public sets that are absent. 4,000 are train, 500 are dev and 500 are test.

namespace linnet::examples {

/// Texts of 20 to 200 words about `classes` topics. A topic has a list of words, which overlaps with the lists
/// of the topics beside it. Other words belong to no topic. The label is the topic of most words, so a model of a bag
/// of words gets about nine in ten right.
TextParts topic_texts(int64_t classes, uint64_t seed);

/// Texts of 20 to 200 words. Two of the words are in all texts. The label says which of these comes first, so a model
/// that ignores the order of words gets one in two right.
TextParts ordered_texts(uint64_t seed);

}  // namespace linnet::examples
