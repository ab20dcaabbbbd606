#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <linnet/core/dtype.h>
#include <linnet/core/tensor.h>
#include <linnet/nn/data/dataset.h>

namespace linnet::nn {

/// Options of `pad_sequence`.
struct PadSequenceOptions {
  bool batch_first = false;  ///< [B, T, …] instead of [T, B, …]
  Scalar padding_value = 0;  ///< fills the positions after the end of a sequence
};

/// Sequences, padded to the same length.
struct PaddedSequences {
  Tensor sequences;     ///< [N, B, ...], or [B, N, ...] with `batch_first`
  Tensor padding_mask;  ///< [B, N], bool, false at padding, as attention takes it
};

/// Stacks sequences, with padding at the end of those that are shorter than the longest.
///
///     const auto [padded, padding_mask] = nn::pad_sequence({x, y}, {.batch_first = true});
///
/// Shapes: [Nᵢ, ...], the same for all except in dim 0 → N is the largest Nᵢ, B the number of sequences.
/// Dtypes: the same for all; it must be able to hold the padding value.
/// Gradient: any number of times.
/// Throws: ValueError for no sequences; ShapeError, DTypeError.
PaddedSequences pad_sequence(const std::vector<Tensor>& sequences, const PadSequenceOptions& options = {},
                             Where where = {});

/// Sequences of different lengths, with a target each. A batch has the padding mask as `others[0]`:
///
///     for (auto& batch : loader) backward(cross_entropy(model(batch.inputs, batch.others[0]), batch.targets));
///
/// Shapes: inputs of a batch [B, N, ...], where N is the length of its longest sequence; targets [B, ...].
class SequenceDataset : public Dataset {
 public:
  /// If `targets` is undefined, so are the targets of a batch.
  ///
  /// Throws: ShapeError unless `targets` has as many rows as there are sequences.
  explicit SequenceDataset(std::vector<Tensor> sequences, Tensor targets = {}, Scalar padding_value = 0,
                           Where where = {});

  int64_t size() const override { return std::ssize(sequences_); }
  Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

 private:
  std::vector<Tensor> sequences_;
  Tensor targets_;
  Scalar padding_value_;
};

}  // namespace linnet::nn
