#pragma once

#include <cfloat>
#include <cmath>

/// Elementary functions of CUDA's library, which has the same names for float and double. They are accurate to a few
/// units in the last place, as CUDA's guide lists, and correct for ±0, denormals, ±∞ and NaN. Only weight_exp2 is a
/// faster approximation.

namespace linnet::cuda {

template <class T>
__device__ T infinity() {
  return static_cast<T>(INFINITY);
}

/// Whether the rounding error of a row's mean is not small compared to its standard deviation. Then kernels also
/// subtract the mean of x − mean, as on the CPU (ops/cpu/device/large_mean.h).
template <class T>
__device__ bool has_large_mean(T mean, T variance) {
  return mean * mean > 256 * variance;
}

template <class T>
__device__ T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}

/// 2ˣ for weights of attention. It is accurate to two units in the last place, like exp2, but 0 if the result would
/// be denormal. It takes one instruction instead of four.
__device__ inline float weight_exp2(float x) {
#ifdef __CUDACC__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else  // the emulation
  const float result = std::exp2(x);
  return result < FLT_MIN ? 0.0f : result;
#endif
}
__device__ inline double weight_exp2(double x) { return exp2(x); }

/// elu(x) + 1: x + 1 above 0 and eˣ below, at least 1e-30
template <class T>
__device__ T elu_plus_one(T x) {
  if (x > 0) return x + T(1);
  const T below = exp(x);
  return below < T(1e-30) ? T(1e-30) : below;
}

/// e^(a − b), the factor that turns sums of e^(s − a) into sums of e^(s − b), for b ≥ a. 0 for a = −∞, when the sum
/// has no term yet.
template <class T>
__device__ T rescale(T a, T b) {
  return a == -infinity<T>() ? T{0} : exp(a - b);
}

}  // namespace linnet::cuda
