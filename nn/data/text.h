#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <linnet/nn/data/dataset.h>

namespace linnet::nn {

/// The characters (bytes) of a text, numbered in their byte order.
class Vocabulary {
 public:
  /// Of all characters that occur in `text`.
  explicit Vocabulary(std::string_view text);

  /// How many there are.
  int64_t size() const { return static_cast<int64_t>(characters_.size()); }
  /// Character i is number i.
  const std::string& characters() const { return characters_; }
  /// Throws ValueError naming the first character that is not in the vocabulary.
  std::vector<int64_t> encode(std::string_view text) const;
  /// Throws IndexError for an id that is no character's.
  std::string decode(std::span<const int64_t> ids) const;

 private:
  std::string characters_;
};

/// A text for a character-level language model: the first 90 % to train on, the rest to validate.
class CharText {
 public:
  /// Throws ValueError for an empty text.
  explicit CharText(std::string_view text);
  /// Throws IoError when the file cannot be read or is empty.
  static CharText read(const std::filesystem::path& path);
  /// The sources of this library, packed into it: a stand-in where no other text is at hand.
  static CharText of_this_project();

  /// Of the whole text.
  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// The numbers of the characters; both parts live as long as this does.
  std::span<const int64_t> train() const { return {ids_.data(), split_}; }
  std::span<const int64_t> validation() const { return std::span(ids_).subspan(split_); }

 private:
  Vocabulary vocabulary_;
  std::vector<int64_t> ids_;
  size_t split_;
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
