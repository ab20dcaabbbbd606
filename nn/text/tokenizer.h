#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace linnet::nn {

/// Turns text into the ids that a language model takes, and back. `Vocabulary` (data/text.h) does so by characters,
/// `BytePairTokenizer` by byte pairs, `WordVocabulary` by English words.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  /// The number of tokens. Ids are from 0 to size() - 1.
  virtual int64_t size() const = 0;
  /// The ids of the tokens of `text`.
  ///
  /// Throws: ValueError for a text that has no ids.
  virtual std::vector<int64_t> encode(std::string_view text) const = 0;
  /// The text of the ids: the texts of the single ids, joined.
  ///
  /// Throws: IndexError for an id outside the vocabulary.
  virtual std::string decode(std::span<const int64_t> ids) const = 0;

 protected:
  Tokenizer() = default;
  Tokenizer(const Tokenizer&) = default;
  Tokenizer(Tokenizer&&) = default;
  Tokenizer& operator=(const Tokenizer&) = default;
  Tokenizer& operator=(Tokenizer&&) = default;
};

}  // namespace linnet::nn
