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

template <class T>
__device__ T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

}  // namespace linnet::cuda
