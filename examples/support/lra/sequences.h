#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "support/settings/settings.h"

/// The data of the Long Range Arena (Tay et al. 2021): every task is sequences of ids and a label for each.

namespace linnet::examples {

/// Sequences of bytes, which may have different lengths.
class ByteSequences {
 public:
  void append(std::span<const uint8_t> sequence);
  int64_t size() const { return std::ssize(ends_); }
  std::span<const uint8_t> operator[](int64_t i) const;
  /// All sequences, one after the other.
  std::span<const uint8_t> bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
  std::vector<int64_t> ends_;  // of each sequence, in bytes_
};

/// How the bytes of a sequence become ids.
enum class Ids : uint8_t {
  byte_plus_one,   ///< 1 … 256; id 0 is only padding
  zero_is_padding  ///< 0 … 255; a byte of 0 is padding wherever it occurs
};

/// Sequences with a label each, or pairs of sequences with a label each. A batch holds ids, labels, and the padding
/// mask as `others[0]`; for pairs also the ids and the mask of the second sequences as `others[1]` and `others[2]`.
///
/// Shapes: ids and masks of a batch [B, N], for N the length of its longest sequence; labels [B].
/// Dtypes: ids and labels int64; masks bool, false at padding.
class LabelledSequences : public nn::Dataset {
 public:
  /// Without pairs, `second` is empty.
  ///
  /// Throws: ValueError when the counts differ.
  LabelledSequences(ByteSequences first, std::vector<uint8_t> labels, ByteSequences second = {},
                    Ids ids = Ids::byte_plus_one);

  int64_t size() const override { return std::ssize(labels_); }
  nn::Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

  /// The number of tokens of each example; of a pair, that of the longer sequence.
  std::vector<int64_t> lengths() const;
  std::span<const uint8_t> labels() const { return labels_; }
  Ids ids() const { return ids_; }
  const ByteSequences& first() const { return first_; }
  const ByteSequences& second() const { return second_; }

 private:
  ByteSequences first_, second_;
  std::vector<uint8_t> labels_;
  Ids ids_;
};

/// The data of one task.
struct SequenceData {
  std::string name;  ///< of the data set; "stand-in: …" if other data stand in for it
  LabelledSequences train, dev, test;
};

}  // namespace linnet::examples
