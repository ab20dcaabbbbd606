#pragma once

#include <algorithm>
#include <cstdint>

#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/launch.cuh>

/// Sums over many rows for each of a few columns, such as the gradients of a layer's parameters. Few columns do not
/// keep a GPU busy. So each block sums one split of the rows, and a second kernel adds the splits' sums.

namespace linnet::cuda {

/// A block has kColumnThreads threads for each of kColumns columns. Thread `row_thread` of a column sums every
/// kColumnThreads-th row of the split.
constexpr int kColumns = 32, kColumnThreads = 8;

/// The division of rows into `count` splits of `length` rows, where `length` is at least `least`. It depends only on
/// the number of rows.
struct RowSplit {
  int64_t length, count;

  explicit RowSplit(int64_t rows, int64_t least = 64)
      : length(std::max(least, ceil_div(rows, kMaxCount))), count(ceil_div(rows, length)) {}

 private:
  static constexpr int64_t kMaxCount = 256;
};

/// Σ over the splits of sums[split, i], for sums [splits, numbers]. A whole warp computes it, because the latency of
/// loads bounds it.
__device__ inline double sum_over_splits(const double* sums, int64_t splits, int64_t numbers, int64_t i) {
  return ThreadGroup<kWarp>::sum<double>(splits, [=](int64_t split) { return sums[split * numbers + i]; });
}

}  // namespace linnet::cuda
