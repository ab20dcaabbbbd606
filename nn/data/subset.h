#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <linnet/core/dtype.h>
#include <linnet/core/tensor.h>
#include <linnet/nn/data/dataset.h>

/// Data sets of tensors, and parts of data sets, as in torch.utils.data.

namespace linnet::nn {

/// A data set whose examples are the rows of tensors: the first tensor holds inputs, the second one targets, and the
/// further ones become Batch::others.
///
///     const nn::TensorDataset data({x, y});
class TensorDataset : public Dataset {
 public:
  /// Throws: ValueError for no tensors; ShapeError unless all have as many rows, in dim 0.
  explicit TensorDataset(std::vector<Tensor> tensors, Where where = {});

  int64_t size() const override { return tensors_[0].size(0); }
  Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

 private:
  std::vector<Tensor> tensors_;
};

/// The examples `indices` of a data set, which must outlive it.
class Subset : public Dataset {
 public:
  /// Throws: IndexError for an example that does not exist.
  Subset(const Dataset& data, std::vector<int64_t> indices, Where where = {});
  Subset(const Dataset&& data, std::vector<int64_t> indices, Where where = {}) = delete;  // it would not outlive this

  int64_t size() const override { return std::ssize(indices_); }
  Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

  const std::vector<int64_t>& indices() const { return indices_; }  ///< of its examples in the whole data set

 private:
  const Dataset& data_;
  std::vector<int64_t> indices_;
};

/// Splits a data set at random into parts. The lengths are numbers of examples, or fractions of all examples. Numbers
/// from fractions are rounded down, and the examples that are left over go to the first parts, one to each.
///
///     const auto parts = nn::random_split(data.train, {0.8, 0.2}, 1337);
///     nn::Loader train(parts[0], {.batch = 64}), test(parts[1], {.batch = 64});
///
/// Throws: ValueError unless the lengths are at least 0 and sum to the size of the data set, or to 1.
std::vector<Subset> random_split(const Dataset& data, const std::vector<Scalar>& lengths, uint64_t seed,
                                 Where where = {});
std::vector<Subset> random_split(const Dataset&& data, const std::vector<Scalar>& lengths, uint64_t seed,
                                 Where where = {}) = delete;  // it would not outlive the parts

}  // namespace linnet::nn
