#pragma once

#include <cstdint>

/// Thread groups: threads that work on one row together, and reductions over them in a fixed order.

namespace linnet::cuda {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarp = 32;

struct Plus {
  template <class V>
  __device__ V operator()(V a, V b) const {
    return a + b;
  }
};

/// NaN if any operand is NaN.
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

/// The value of the lane whose number is this one's XOR `distance`.
template <class V>
__device__ V shuffle(V value, int distance) {
  return __shfl_xor_sync(kAllLanes, value, distance);
}

/// The value of lane `lane`. Each lane may choose another one.
template <class V>
__device__ V value_of(V value, int lane) {
  return __shfl_sync(kAllLanes, value, lane);
}

/// Reduces over each `kLanes` neighbouring lanes of a warp, a power of two up to 32; every lane gets the result. All
/// lanes of the warp must call it.
template <int kLanes, class V, class F>
__device__ V reduce_lanes(V value, F combine) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = combine(value, shuffle(value, distance));
  }
  return value;
}

/// The threads that work on one row: a warp for short rows, so that a block of 256 threads takes eight rows, or a
/// whole block. A group may also be part of a warp; then all groups of that warp must call each reduction.
template <int kSize>
struct ThreadGroup {
  static_assert((kSize <= kWarp && kWarp % kSize == 0) || kSize == 256, "part of a warp, a warp, or a block of 256");
  static constexpr int size = kSize;
  static constexpr int rows = 256 / kSize;  ///< the number of rows of a block of 256 threads

  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kSize; }
  /// The first row of this thread's group, and the distance to its next one.
  __device__ static int64_t first_row() { return int64_t{blockIdx.x} * rows + threadIdx.x / kSize; }
  __device__ static int64_t row_step() { return int64_t{gridDim.x} * rows; }

  /// Reduces over the group's threads; each gets the result. All threads of the group must call it.
  template <class V, class F>
  __device__ static V reduce(V value, F combine) {
    constexpr int kLanes = kSize < kWarp ? kSize : kWarp;
    value = reduce_lanes<kLanes>(value, combine);
    if constexpr (kSize > kWarp) {
      __shared__ V of_warp[kSize / kWarp];
      if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = value;
      __syncthreads();
      value = of_warp[0];
      for (int w = 1; w < kSize / kWarp; ++w) value = combine(value, of_warp[w]);
      __syncthreads();  // before the next reduction overwrites of_warp
    }
    return value;
  }

  /// f(0) + … + f(n − 1); each thread of the group gets it. A thread sums its terms in T, and the threads' sums are
  /// added in double, so that the rounding error hardly grows with n.
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
