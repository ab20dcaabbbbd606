#pragma once

#include <algorithm>
#include <cstdint>

#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/launch.cuh>

/// Sums over many rows for each of a few columns, such as the gradients of a layer's parameters: too few columns to
/// keep a GPU busy, so that blocks sum pieces of the rows, and a second kernel adds the pieces up.

namespace linnet::cuda {

/// A block that sums a piece has kSlices threads for each of kColumns columns; each takes every kSlices-th row.
constexpr int kColumns = 32, kSlices = 8;

/// How rows are cut: into pieces of `least` or more. It depends on their number alone.
struct RowSplit {
  int64_t length, count;

  explicit RowSplit(int64_t rows, int64_t least = 64)
      : length(std::max(least, ceil_div(rows, kMaxCount))), count(ceil_div(rows, length)) {}

 private:
  static constexpr int64_t kMaxCount = 256;
};

/// The sum over all pieces of number `i` of the `numbers` that each has in sums [pieces, numbers], by a warp, since
/// what bounds it is the time that a load takes.
__device__ inline double sum_of_pieces(const double* sums, int64_t pieces, int64_t numbers, int64_t i) {
  return ThreadGroup<kWarp>::sum<double>(pieces, [=](int64_t piece) { return sums[piece * numbers + i]; });
}

}  // namespace linnet::cuda
