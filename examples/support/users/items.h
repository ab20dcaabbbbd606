#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <linnet/linnet.h>

#include "support/tasks/lists.h"

/// What models of users read: items, which are texts as ids of words, and lists of them.

namespace linnet::examples {

/// The options of vocabularies for models of users: rare words have no id.
inline constexpr nn::WordVocabularyOptions kWordOptions{.min_freq = 2, .max_tokens = 50'000};

/// The ids of a text's first `most` words; that of an unknown word for a text without words.
std::vector<int32_t> first_words(const nn::WordVocabulary& vocabulary, std::string_view text, int64_t most);

/// What one user did and what is scored for them, as numbers of items.
struct UserAndCandidates {
  std::span<const int32_t> history;
  std::vector<int32_t> candidates;  ///< the same number for every user of a batch
};

/// A batch for a model of users. Each of its U items is in it once, even if several users have it in their history or
/// among their K candidates. It holds the words [U, T] as `inputs`, their mask, the histories [B, H] as row numbers
/// of the words, their mask, and the candidates [B, K] as row numbers too.
nn::Batch user_batch(const Lists& items, const std::vector<UserAndCandidates>& users, const Tensor& targets);

/// The mean number of words in a batch, over the first few batches of `users`, which are user_batches. Each text
/// counts once, because a model encodes it once.
int64_t words_per_batch(const nn::Dataset& users, const nn::LoaderOptions& options);

}  // namespace linnet::examples
