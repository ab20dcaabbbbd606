#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <linnet/linnet.h>

#include "support/tasks/lists.h"

/// What models of users read: items, which are texts as ids of words, and lists of them.

namespace linnet::examples {

/// Of the vocabularies of models of users: rare words have no id.
inline constexpr nn::WordVocabularyOptions kWordOptions{.min_freq = 2, .max_tokens = 50'000};

/// The ids of a text's first `most` words; that of an unknown word for a text without words.
std::vector<int32_t> first_words(const nn::WordVocabulary& vocabulary, std::string_view text, int64_t most);

/// What one user did and what is scored for them, as numbers of items.
struct UserAndCandidates {
  std::span<const int32_t> history;
  std::vector<int32_t> candidates;  ///< of every user of a batch as many
};

/// A batch for a model of users. Each of its U items stands in it once, whoever has it in their history or among
/// their K candidates: the words [U, T] as `inputs`, their mask, the histories [B, H] as rows of that, their mask,
/// and the candidates [B, K] as such rows.
nn::Batch user_batch(const Lists& items, const std::vector<UserAndCandidates>& users, const Tensor& targets);

/// The mean number of words in the texts of a batch, over the first few batches of `users`, whose batches are
/// user_batches: of each text once, as a model encodes it.
int64_t words_per_batch(const nn::Dataset& users, const nn::LoaderOptions& options);

}  // namespace linnet::examples
