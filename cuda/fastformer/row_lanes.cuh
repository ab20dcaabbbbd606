#pragma once

#include <cstdint>

#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>

/// Loops over short rows. A warp takes several rows at once.

namespace linnet::cuda {

/// The number of neighbouring lanes that share a row of `width` columns: the smallest power of two with at most kPack
/// columns for each lane, but at most a warp.
constexpr int lanes_for(int64_t width) {
  int lanes = 1;
  while (lanes < kWarp && lanes * kPack < width) lanes *= 2;
  return lanes;
}

/// Calls `f(row, lane, exists)` for each of `rows` rows, on `lanes` lanes. Lanes beyond the last row call it with row
/// 0 and `exists` false, so that all lanes of a warp take part in reductions.
template <class F>
__device__ void for_rows(int64_t rows, int lanes, const F& f) {
  for (int64_t item = first_item(); item - ThreadGroup<kWarp>::lane() < rows * lanes; item += item_step()) {
    const bool exists = item < rows * lanes;
    int64_t row = item;
    const auto lane = static_cast<int>(take_inner(row, lanes));
    f(exists ? row : 0, lane, exists);
  }
}

/// The sum over the `lanes` lanes of a row; each lane gets it. All lanes of the warp must call it.
template <class V>
__device__ V sum_of_row(V value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) value += shuffle(value, distance);
  return value;
}

}  // namespace linnet::cuda
