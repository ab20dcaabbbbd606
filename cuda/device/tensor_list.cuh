#pragma once

#include <cstdint>

#include <linnet/cuda/device/launch.cuh>

/// Many tensors in one launch. A model has many small tensors, which are not worth a launch each.

namespace linnet::cuda {

/// A list of tensors that fits into the 4 KB of a kernel's parameters. `Tensor` has the members `count`, its number
/// of elements, and `first_block`.
template <class Tensor>
struct TensorList {
  static constexpr int kMost = 4000 / sizeof(Tensor);
  static constexpr int64_t kBlock = 4 * kThreads;  ///< the number of elements of a block

  Tensor of[kMost];
  int count;
  int64_t blocks;

  bool is_full() const { return count == kMost; }
  void add(Tensor tensor) {
    tensor.first_block = blocks;
    of[count++] = tensor;
    blocks += blocks_of(tensor);
  }
  __host__ __device__ static int64_t blocks_of(const Tensor& tensor) { return ceil_div(tensor.count, kBlock); }

  /// The tensor of a block, and its first element there.
  __device__ const Tensor& at(int64_t block) const {
    int t = 0, end = count;  // the last tensor that begins at this block or before
    while (end - t > 1) {
      const int middle = (t + end) / 2;
      (of[middle].first_block > block ? end : t) = middle;
    }
    return of[t];
  }
  __device__ static int64_t first(const Tensor& tensor, int64_t block) {
    return (block - tensor.first_block) * kBlock;
  }
};

}  // namespace linnet::cuda
