#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <linnet/linnet.h>

/// What models of users read: items, which are texts as ids of words, and lists of them.

namespace linnet::examples {

/// Lists of numbers, which may have different lengths.
class Lists {
 public:
  void append(std::span<const int32_t> list);
  int64_t size() const { return std::ssize(ends_); }
  std::span<const int32_t> operator[](int64_t i) const;
  /// All lists, one after the other.
  std::span<const int32_t> numbers() const { return numbers_; }

 private:
  std::vector<int32_t> numbers_;
  std::vector<int64_t> ends_;  // of each list, in numbers_
};

/// Of the vocabularies of models of users: rare words have no id.
inline constexpr nn::WordVocabularyOptions kWordOptions{.min_freq = 2, .max_tokens = 50'000};

/// The ids of a text's first `most` words; that of an unknown word for a text without words.
std::vector<int32_t> first_words(const nn::WordVocabulary& vocabulary, std::string_view text, int64_t most);

/// Lists of numbers as rows of one length, at least 1, with 0 for padding.
///
/// Shapes: both [B, N]. Dtypes: int64, and bool, false at padding.
struct PaddedLists {
  Tensor numbers, mask;
};
PaddedLists padded(const std::vector<std::span<const int32_t>>& lists);

/// What one user did and what is scored for them, as numbers of items.
struct UserAndCandidates {
  std::span<const int32_t> history;
  std::vector<int32_t> candidates;  ///< of every user of a batch as many
};

/// A batch for a model of users. Each of its U items stands in it once, whoever has it in their history or among
/// their K candidates: the words [U, T] as `inputs`, their mask, the histories [B, H] as rows of that, their mask,
/// and the candidates [B, K] as such rows.
nn::Batch user_batch(const Lists& items, const std::vector<UserAndCandidates>& users, const Tensor& targets);

}  // namespace linnet::examples
