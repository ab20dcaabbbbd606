#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <linnet/nn/data/dataset.h>

namespace linnet::nn {

/// What a text's characters are: the code points of Unicode, of which UTF-8 spends up to four bytes on each, or
/// bytes.
enum class Characters { code_points, bytes };

/// The characters of a text, numbered in the order of their codes.
class Vocabulary {
 public:
  /// Of all characters that occur in `text`. Throws ValueError naming the first byte that is not UTF-8, where
  /// characters are code points.
  explicit Vocabulary(std::string_view text, Characters kind = Characters::code_points);

  Characters kind() const { return kind_; }
  /// How many there are.
  int64_t size() const { return static_cast<int64_t>(codes_.size()); }
  /// The code of each character: a code point, or the value of a byte.
  const std::vector<char32_t>& codes() const { return codes_; }
  /// Throws ValueError naming the first character that is not in the vocabulary, or the first byte that is not UTF-8.
  std::vector<int64_t> encode(std::string_view text) const;
  /// Throws IndexError for an id that is no character's.
  std::string decode(std::span<const int64_t> ids) const;

 private:
  Characters kind_;
  std::vector<char32_t> codes_;
};

/// How a text is read.
struct TextOptions {
  Characters characters = Characters::code_points;
  bool normalise_newlines = false;  ///< CR LF, and CR alone, become LF
};

/// A text for a character-level language model: the first 90 % to train on, the rest to validate.
class CharText {
 public:
  /// Throws ValueError for an empty text, and for one that is not UTF-8 where characters are code points.
  explicit CharText(std::string_view text, const TextOptions& options = {});
  /// Reads a file; or of a folder all files whose names end in .txt, in the order of their names, each from a line of
  /// its own. Where characters are code points, a byte order mark at the beginning of a file is dropped. Throws
  /// IoError when a file cannot be read, or is not UTF-8, which names the byte's offset; and when there is no text.
  static CharText read(const std::filesystem::path& path, const TextOptions& options = {});
  /// The sources of this library, packed into it: a stand-in where no other text is at hand.
  static CharText of_this_project(const TextOptions& options = {});

  /// Of the whole text.
  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// The numbers of the characters; both parts live as long as this does.
  std::span<const int64_t> train() const { return {ids_.data(), split_}; }
  std::span<const int64_t> validation() const { return std::span(ids_).subspan(split_); }
  /// How many byte order marks were dropped.
  int64_t dropped_marks() const { return dropped_marks_; }

 private:
  Vocabulary vocabulary_;
  std::vector<int64_t> ids_;
  size_t split_;
  int64_t dropped_marks_ = 0;
};

/// `batch` random windows of `ids`: inputs and targets int64 [batch, context], the targets one character ahead. The
/// windows depend on the key alone. Throws ValueError when `ids` is not longer than the context, or for a batch or
/// context below 1.
Batch random_windows(std::span<const int64_t> ids, int64_t batch, int64_t context, RandomKey key, Where where = {});

/// All consecutive windows of `ids` that do not overlap, as one data set; what is left over at the end is dropped.
/// `ids` must outlive it.
class Windows : public Dataset {
 public:
  /// Throws ValueError when `ids` is not longer than the context.
  Windows(std::span<const int64_t> ids, int64_t context, Where where = {});
  int64_t size() const override;
  Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

 private:
  std::span<const int64_t> ids_;
  int64_t context_;
};

}  // namespace linnet::nn
