#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <linnet/core/where.h>
#include <linnet/nn/text/tokenizer.h>

namespace linnet::nn {

/// The words and punctuation marks of an English text, lower-cased:
///
///     nn::word_tokenize("It's 3,000.50 a well-known price; don't pay!");
///     // it 's 3,000.50 a well-known price ; do n't pay !
///
/// A word is a run of letters, digits and bytes above 127, so that letters outside of ASCII are not cut. It keeps `-`
/// between letters, and `.` and `,` between digits. The endings `n't`, `'s`, `'re`, `'ve`, `'ll`, `'d` and `'m` are
/// separate words. Every other visible ASCII character is a word; invisible ones separate words. Only ASCII is
/// lower-cased. A text need not be UTF-8; no byte above 127 is changed or lost.
///
/// Cost: one pass over the text.
/// Source: close to NLTK's `word_tokenize`, which has more rules, such as those for quotes and abbreviations.
std::vector<std::string> word_tokenize(std::string_view text);

/// Options of WordVocabulary::build. Names and defaults are those of torchtext's `build_vocab_from_iterator`.
struct WordVocabularyOptions {
  int64_t min_freq = 1;    ///< a word that occurs less often has no id
  int64_t max_tokens = 0;  ///< the most ids, padding and unknown words among them; 0 for no limit
};

/// Ids for the words of `word_tokenize`: 0 for padding, 1 for unknown words, which the vocabulary does not have, then
/// the words from the most frequent one on. Equally frequent words are in the order of their bytes.
///
///     const std::vector<std::string> texts{"To be, or not to be", "that is the question"};
///     const auto vocabulary = nn::WordVocabulary::build(texts, {.min_freq = 2, .max_tokens = 50000});
///     const std::vector<int64_t> ids = vocabulary.encode("To be, or not to be");
///     vocabulary.save(folder / "words.txt");  // a model needs the same ids again: WordVocabulary::load
class WordVocabulary : public Tokenizer {
 public:
  static constexpr int64_t kPadding = 0, kUnknown = 1;  ///< the ids of padding and of unknown words

  /// The vocabulary of some texts.
  ///
  /// Cost: one pass over the texts, and a sort of their distinct words.
  /// Throws: ValueError for a min_freq below 1, and for a max_tokens below 3 that is not 0.
  static WordVocabulary build(std::span<const std::string> texts, const WordVocabularyOptions& options = {},
                              Where where = {});
  /// The vocabulary whose words() these are. So a program can keep a vocabulary in a file of its own, such as a
  /// checkpoint: as text with a word a line, because no word has a line end.
  ///
  /// Throws: ValueError unless the first two are `<pad>` and `<unk>`, and for a word that is empty, has a line end or
  /// is there twice.
  static WordVocabulary from_words(std::vector<std::string> words, Where where = {});

  /// Reads the words from a file, one a line.
  ///
  /// Throws: IoError, with the line, for a file that cannot be read or whose last line has no end, and for words that
  /// from_words refuses.
  static WordVocabulary load(const std::filesystem::path& path, Where where = {});
  /// Writes the words into a file, one a line, in the order of their ids. The file is written completely or not at
  /// all.
  ///
  /// Throws: IoError for a file that cannot be written.
  void save(const std::filesystem::path& path, Where where = {}) const;

  int64_t size() const override { return static_cast<int64_t>(words_.size()); }
  std::vector<int64_t> encode(std::string_view text) const override;
  /// The words of the ids, each with a blank after it. Padding is `<pad>`, and an unknown word `<unk>`.
  std::string decode(std::span<const int64_t> ids) const override;

  /// The id of a word; kUnknown if the vocabulary does not have it.
  int64_t id(std::string_view word) const;
  /// The words by their ids; the first two are the names of padding and unknown words.
  const std::vector<std::string>& words() const { return words_; }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  explicit WordVocabulary(std::vector<std::string> words);

  std::vector<std::string> words_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
};

}  // namespace linnet::nn
