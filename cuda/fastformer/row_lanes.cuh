#pragma once

#include <cstdint>

#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>

/// Short rows, of which a warp takes several at once.

namespace linnet::cuda {

/// How many neighbouring lanes share a row of `width` columns: a power of two, as few as have kPack columns each at
/// most, or a warp.
constexpr int lanes_for(int64_t width) {
  int lanes = 1;
  while (lanes < kWarp && lanes * kPack < width) lanes *= 2;
  return lanes;
}

/// Calls `f(row, lane, there)` for each of `rows` rows with `lanes` lanes at each; where not `there`, for a lane too
/// many, with row 0, so that all of a warp come to what they fold.
template <class F>
__device__ void for_rows(int64_t rows, int lanes, const F& f) {
  for (int64_t item = first_item(); item - ThreadGroup<kWarp>::lane() < rows * lanes; item += item_step()) {
    const bool there = item < rows * lanes;
    f(there ? item / lanes : 0, static_cast<int>(item % lanes), there);
  }
}

/// The sum over the `lanes` lanes of a row, at each of them. All of the warp must call it.
template <class V>
__device__ V sum_of_row(V value, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) value += shuffle(value, distance);
  return value;
}

}  // namespace linnet::cuda
