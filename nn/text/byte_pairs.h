#pragma once

#include <array>
#include <filesystem>
#include <unordered_map>

#include <linnet/core/where.h>
#include <linnet/nn/text/tokenizer.h>

namespace linnet::nn {

/// Options of BytePairTokenizer::train. Names and defaults are those of Hugging Face's `ByteLevelBPETokenizer`.
struct BytePairOptions {
  int64_t vocab_size = 30000;                    ///< the most tokens: 256 bytes, merged pairs and special tokens
  int64_t min_frequency = 2;                     ///< pairs that occur less often are not merged
  std::vector<std::string> special_tokens = {};  ///< such as "<|endoftext|>"; they get the last ids
};

/// Byte-level byte-pair encoding (Sennrich et al. 2016) as in GPT-2 (Radford et al. 2019). GPT-2's rule cuts a text
/// into pieces: words, numbers, runs of other characters, and blanks. A piece starts as one token for each byte; then
/// pairs of neighbouring tokens become one token, in the order of the merges. Every text has ids, even one that is
/// not UTF-8, and they decode to the same bytes. Letters, numbers and blanks are those of Unicode 16.
///
///     const auto tokenizer = nn::BytePairTokenizer::train(text, {.vocab_size = 1000});
///     tokenizer.save(folder);
///     const std::vector<int64_t> ids = nn::BytePairTokenizer::load(folder).encode("Once upon a time");
///
/// `encode` never gives special tokens: it treats their names in a text as ordinary characters.
class BytePairTokenizer : public Tokenizer {
 public:
  /// Learns merges: it repeatedly merges the most frequent pair of neighbouring tokens within pieces. Of equally
  /// frequent pairs it takes the one that comes first in the text. The first ids are those of the bytes, in GPT-2's
  /// order; then come the merges, then the special tokens. There are fewer than `vocab_size` if no pair is left.
  ///
  /// Cost: about n·log(n) for a text of words whose distinct pieces have n bytes together. Each merge goes through
  /// every distinct piece that has the pair, so a piece of a megabyte without blanks may take hours.
  /// Throws: ValueError for a vocab_size below 256 and the special tokens, and for a special token that is empty, is
  /// given twice, is not UTF-8, or is a single character that represents a byte in the files.
  static BytePairTokenizer train(std::string_view text, const BytePairOptions& options = {}, Where where = {});

  /// Reads `vocab.json` and `merges.txt`, the files of GPT-2 and of Hugging Face's tokenizers. Entries of
  /// `vocab.json` that are neither a byte nor made by a merge are special tokens, which decode to their names.
  ///
  /// Throws: IoError, with file and line, for a file that cannot be read or is damaged, for ids that are not 0, 1, …
  /// in some order, for a byte without an id, and for a merge of tokens that `vocab.json` lacks, or that are neither
  /// bytes nor made by an earlier merge.
  static BytePairTokenizer load(const std::filesystem::path& folder, Where where = {});
  /// Writes both files into an existing folder. Each file is written completely or not at all.
  ///
  /// Throws: IoError for a file that cannot be written.
  void save(const std::filesystem::path& folder, Where where = {}) const;

  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  /// Cost: at most n·log(n) for a piece of n bytes; for a repeated piece the ids are copied.
  std::vector<int64_t> encode(std::string_view text) const override;
  /// The bytes of the ids, and the names of special tokens.
  std::string decode(std::span<const int64_t> ids) const override;

  /// The special tokens, in the order of their ids.
  std::vector<std::string> special_tokens() const;
  /// The id of a special token.
  ///
  /// Throws: ValueError, which lists the special tokens, for any other name.
  int64_t special_token_id(std::string_view name) const;

 private:
  /// Two tokens that become one.
  struct Merge {
    int32_t left, right, result;
  };
  class PieceEncoder;
  class Trainer;
  class Reader;

  BytePairTokenizer(std::vector<std::string> tokens, const std::array<int32_t, 256>& byte_ids,
                    std::vector<Merge> merges, std::vector<int32_t> special_ids);
  static uint64_t pair_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }

  std::vector<std::string> tokens_;  // the bytes of each id; the name of a special token
  std::array<int32_t, 256> byte_ids_;
  std::vector<Merge> merges_;                    // in the order in which they apply
  std::unordered_map<uint64_t, int32_t> ranks_;  // the index of a pair in merges_
  std::vector<int32_t> special_ids_;             // ascending
};

}  // namespace linnet::nn
