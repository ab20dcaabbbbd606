#pragma once

#include <cstddef>
#include <cstdint>

#include <linnet/core/device/backend.h>
#include <linnet/cuda/attention/first_queries.cuh>
#include <linnet/cuda/device/scratch.cuh>

namespace linnet::cuda {

/// Queries or keys x [B, H, N, D] after a RowMap other than RowMap::none, in memory of their own. x is not empty.
class MappedRows {
 public:
  /// Queries. Rows before `first` are 0.
  MappedRows(RowMap map, const View& q, FirstQuery first) : MappedRows(map, true, q, nullptr, first) {}
  /// Keys. Padding, where `padding_mask` [B, N] is false, is 0.
  MappedRows(RowMap map, const View& k, const View* padding_mask) : MappedRows(map, false, k, padding_mask, {}) {}

  View view() const { return {y_.data(), dtype_, 4, shape_, strides_}; }

  /// Turns the gradients of the mapped rows into those of x, in place.
  void differentiate(const View& gradients) const;

 private:
  MappedRows(RowMap map, bool queries, const View& x, const View* padding_mask, FirstQuery first);

  RowMap map_;
  DType dtype_;
  int64_t shape_[4], strides_[4];
  Scratch<std::byte> y_, inverse_;  // inverse_: 1 / std of each row, or 1 / sum
};

}  // namespace linnet::cuda
