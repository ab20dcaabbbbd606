#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <linnet/nn/data/dataset.h>
#include <linnet/nn/text/tokenizer.h>

namespace linnet::nn {

/// What a character of a text is: a Unicode code point, which has up to four bytes in UTF-8, or a single byte.
enum class Characters { code_points, bytes };

/// The characters of a text, numbered in the order of their codes.
class Vocabulary : public Tokenizer {
 public:
  /// All characters that occur in `text`.
  ///
  /// Throws: for code points, ValueError with the offset of the first byte that is not UTF-8.
  explicit Vocabulary(std::string_view text, Characters kind = Characters::code_points);

  Characters kind() const { return kind_; }  ///< what a character is
  /// The number of characters.
  int64_t size() const override { return static_cast<int64_t>(codes_.size()); }
  /// The code of each character: a code point, or the value of a byte.
  const std::vector<char32_t>& codes() const { return codes_; }
  /// The ids of the characters of `text`.
  ///
  /// Throws: ValueError, with the first character that is not in the vocabulary or the first byte that is not UTF-8.
  std::vector<int64_t> encode(std::string_view text) const override;
  /// The text of the ids.
  ///
  /// Throws: IndexError for an id outside the vocabulary.
  std::string decode(std::span<const int64_t> ids) const override;

 private:
  int32_t id_of(char32_t code) const;

  Characters kind_;
  std::vector<char32_t> codes_;
  // The ids of characters, in two tables: one of all codes would have up to a million entries. The codes are cut into
  // pages of 256; `pages_` says where the ids of a page begin. `ids_` begins with the first page, and a page without
  // characters, which stands for all such pages.
  std::vector<int32_t> pages_, ids_;
};

/// Options of CharText.
struct TextOptions {
  Characters characters = Characters::code_points;  ///< what a character is
  bool normalise_newlines = false;                  ///< CR LF, and CR alone, become LF
};

/// A text for a character-level language model: the first 90 % for training, the rest for validation.
class CharText {
 public:
  /// Throws: ValueError for an empty text, and for one that is not UTF-8 where characters are code points.
  explicit CharText(std::string_view text, const TextOptions& options = {});
  /// Reads a file, or all files of a folder whose names end in .txt, in the order of their names. Each file starts on
  /// a new line. For code points, a byte order mark at the beginning of a file is dropped.
  ///
  /// Throws: IoError when a file cannot be read or is not UTF-8 (with the byte's offset), and when there is no text.
  static CharText read(const std::filesystem::path& path, const TextOptions& options = {});
  /// The source code of this library, which is compiled into it: a substitute if no other text is available.
  static CharText of_this_project(const TextOptions& options = {});

  /// The vocabulary of the whole text.
  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// The ids of the characters. Both spans are valid as long as the CharText.
  std::span<const int64_t> train() const { return {ids_.data(), split_}; }
  std::span<const int64_t> validation() const { return std::span(ids_).subspan(split_); }
  /// The number of byte order marks that were dropped.
  int64_t dropped_marks() const { return dropped_marks_; }

 private:
  Vocabulary vocabulary_;
  std::vector<int64_t> ids_;
  size_t split_;
  int64_t dropped_marks_ = 0;
};

/// `batch` random windows of `ids`. Targets are the inputs, one token later. The windows depend only on the key.
///
/// Shapes: inputs and targets [batch, context].
/// Dtypes: int64.
/// Throws: ValueError when `ids` is not longer than the context, or for a batch or context below 1.
Batch random_windows(std::span<const int64_t> ids, int64_t batch, int64_t context, RandomKey key, Where where = {});

/// The data set of all consecutive windows of `ids` that do not overlap, with targets as above. An incomplete window
/// at the end is dropped. `ids` must outlive the data set.
class Windows : public Dataset {
 public:
  /// Throws: ValueError when `ids` is not longer than the context, or for a context below 1.
  Windows(std::span<const int64_t> ids, int64_t context, Where where = {});
  Windows(std::vector<int64_t>&& ids, int64_t context, Where where = {}) = delete;  // `ids` would not outlive it
  int64_t size() const override;
  Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

 private:
  std::span<const int64_t> ids_;
  int64_t context_;
};

}  // namespace linnet::nn
