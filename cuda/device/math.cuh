#pragma once

#include <cmath>

/// Elementary functions of CUDA's library, which has them for float and double under one name: off by a few units in
/// the last place at most, as its guide lists them, and right for ±0, denormals, ±∞ and NaN. (No fast approximations:
/// float32 is exact.)

namespace linnet::cuda {

template <class T>
__device__ T infinity() {
  return static_cast<T>(INFINITY);
}

/// Whether a row's mean is to be made a second time, of what the first one left: its rounding is not small beside the
/// deviation. As on the CPU (kLargeMean in ops/cpu/device/row_sums.h).
template <class T>
__device__ bool has_large_mean(T mean, T variance) {
  return mean * mean > 256 * variance;
}

template <class T>
__device__ T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

/// e^(a − b), the factor that turns sums of e^s relative to a into sums relative to b ≥ a; 0 where there is no sum
/// yet.
template <class T>
__device__ T rescale(T a, T b) {
  return a == -infinity<T>() ? T{0} : exp(a - b);
}

}  // namespace linnet::cuda
