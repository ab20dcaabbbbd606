#pragma once

#include <cstddef>
#include <cstdint>

#include <linnet/core/device/backend.h>
#include <linnet/cuda/attention/first_queries.cuh>
#include <linnet/cuda/device/scratch.cuh>

namespace linnet::cuda {

/// The queries or keys x [B, H, N, D] of Fastmax, each row with mean 0 and variance 1 (Gerami et al. 2024, eqs. 5 and
/// 6), in memory of its own. Rows before `first` and padding, where `padding_mask` [B, N] is false, are 0. x is not
/// empty.
class Standardised {
 public:
  Standardised(const View& x, const View* padding_mask, FirstQuery first);

  View view() const { return {y_.data(), dtype_, 4, shape_, strides_}; }

  /// Turns the gradients of the standardised rows into those of x, in place.
  void differentiate(const View& gradients) const;

 private:
  DType dtype_;
  int64_t shape_[4], strides_[4];
  Scratch<std::byte> y_, inverse_std_;
};

}  // namespace linnet::cuda
