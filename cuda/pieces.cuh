#pragma once

#include <algorithm>
#include <cstdint>

#include <linnet/cuda/launch.cuh>

/// Sums over many rows for each of a few columns, such as the gradients of a layer's parameters: too few columns to
/// keep a GPU busy, so that blocks sum pieces of the rows, and a second kernel adds the pieces up, in order.

namespace linnet::cuda {

/// A block that sums a piece has kSlices threads for each of kColumns columns; each takes every kSlices-th row.
constexpr int kColumns = 32, kSlices = 8;

/// How rows are cut. It depends on their number alone.
struct Pieces {
  int64_t length, count;

  explicit Pieces(int64_t rows)
      : length(std::max(kMinRows, ceil_div(rows, kMaxCount))), count(ceil_div(rows, length)) {}

 private:
  static constexpr int64_t kMinRows = 64, kMaxCount = 256;
};

/// The sum over all pieces of number `i` of the `numbers` that each has in sums [pieces, numbers].
__device__ inline double sum_of_pieces(const double* sums, int64_t pieces, int64_t numbers, int64_t i) {
  double sum = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) sum += sums[piece * numbers + i];
  return sum;
}

}  // namespace linnet::cuda
