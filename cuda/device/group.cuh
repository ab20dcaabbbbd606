#pragma once

#include <cstdint>

/// Threads that work on one row together, and folds over them in a fixed order.

namespace linnet::cuda {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarp = 32;

struct Plus {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};

/// NaN where any is.
struct Maximum {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return b > a || b != b ? b : a;
  }
};

struct Minimum {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return b < a ? b : a;
  }
};

/// The value of the lane whose number differs in `distance`.
template <class V>
__device__ V shuffle(V value, int distance) {
  return __shfl_xor_sync(kAllLanes, value, distance);
}

/// The value of lane `lane`, which need not be the same for all.
template <class V>
__device__ V value_of(V value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}

/// The fold over the `kLanes` neighbours of a warp, at each of them: a power of two up to 32. All lanes of the
/// warp must call it.
template <int kLanes, class V, class F>
__device__ V reduce_lanes(V value, F fold) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = fold(value, shuffle(value, distance));
  }
  return value;
}

/// A row's threads: one warp for short rows, so that a block of 256 handles eight of them, or a whole block. Or fewer
/// lanes than a warp, all groups of which must then come to each fold.
template <int kSize>
struct ThreadGroup {
  static_assert((kSize <= kWarp && kWarp % kSize == 0) || kSize == 256, "some of a warp, a warp, or a block of 256");
  static constexpr int size = kSize;
  static constexpr int rows = 256 / kSize;  ///< per block of 256 threads

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kSize; }
  /// The first row of this thread's group, and the way to its next one. All threads of a group have one row.
  __device__ static int64_t first_row() { return int64_t{blockIdx.x} * rows + threadIdx.x / kSize; }
  __device__ static int64_t row_step() { return int64_t{gridDim.x} * rows; }

  /// The fold over the group's threads, at each of them. All of the group must call it.
  template <class V, class F>
  __device__ static V reduce(V value, F fold) {
    constexpr int kLanes = kSize < kWarp ? kSize : kWarp;
    value = reduce_lanes<kLanes>(value, fold);
    if constexpr (kSize > kWarp) {
      __shared__ V of_warp[kSize / kWarp];
      if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
      __syncthreads();
      value = of_warp[0];
      for (int w = 1; w < kSize / kWarp; ++w) value = fold(value, of_warp[w]);
      __syncthreads();  // before the next fold writes there
    }
    return value;
  }

  /// f(0) + … + f(n − 1) at each thread of the group: in T over the terms of one thread, in double over threads,
  /// so that the rounding error hardly grows with n.
  template <class T, class F>
  __device__ static double sum(int64_t n, F f) {
    T sum = 0;
    for (int64_t i = lane(); i < n; i += kSize) sum += f(i);
    return reduce(static_cast<double>(sum), Plus());
  }
};

/// Calls `f` with the group that suits rows of `width` elements: `for_group(width, [&](auto group) { … })`.
template <class F>
void for_group(int64_t width, F&& f) {
  if (width <= 1024) return f(ThreadGroup<kWarp>());
  f(ThreadGroup<256>());
}

}  // namespace linnet::cuda
