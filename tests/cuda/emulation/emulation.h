#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <tuple>
#include <type_traits>

#include <cuda_runtime_api.h>

#include "control.h"
#include "failure.h"
#include "grid.h"
#include "stream.h"

/// The names that nvcc defines and the kernels use. Included before each source of kernels, and so before CUDA's
/// headers.

// In CUDA's other headers, these must be as in host code.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>

#undef __host__
#undef __device__
#undef __global__
#undef __noinline__
#undef __launch_bounds__
#define __host__
#define __device__
#define __global__
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __CUDA_ARCH__ 900

namespace linnet::emulation {

/// `kernel<<<blocks, threads, shared, stream>>>(arguments...)` becomes a call of this. Copies the arguments, as CUDA
/// does.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), unsigned blocks, int threads, size_t shared, cudaStream_t stream,
            const Arguments&... arguments) {
  static_assert((sizeof(Parameters) + ... + 0) <= 4096, "CUDA passes 4 KB of arguments");
  if (blocks == 0 || threads <= 0 || threads > kMostThreads || shared != 0) {
    fail("a launch of %u blocks of %d threads with %zu bytes is not emulated", blocks, threads, shared);
  }
  if (error_told("launch") != cudaSuccess) return;
  const Grid grid{blocks, static_cast<unsigned>(threads), reinterpret_cast<const void*>(kernel)};
  auto copies = std::make_shared<std::tuple<Parameters...>>(static_cast<Parameters>(arguments)...);
  submit(stream, [=] { run_grid(grid, [&] { std::apply(kernel, *copies); }); });
}

template <class T>
T shuffle(Call call, unsigned mask, T value, unsigned source) {
  static_assert(std::is_arithmetic_v<T>, "CUDA shuffles numbers");
  if (mask != 0xffffffffu || blockDim.x % kWarp != 0) fail("a shuffle of some lanes of a warp is not emulated");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(call, bits, source);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <class To, class From>
To same_bits(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To y;
  std::memcpy(&y, &x, sizeof y);
  return y;
}

}  // namespace linnet::emulation

using linnet::emulation::blockDim;
using linnet::emulation::blockIdx;
using linnet::emulation::gridDim;
using linnet::emulation::threadIdx;

inline void __syncthreads() { linnet::emulation::wait_for_block(linnet::emulation::Call::syncthreads, true); }
inline void __syncwarp() { linnet::emulation::wait_for_warp(linnet::emulation::Call::syncwarp); }
inline int __syncthreads_and(int vote) {
  return linnet::emulation::wait_for_block(linnet::emulation::Call::syncthreads_and, vote != 0);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance) {
  const unsigned source = linnet::emulation::lane() ^ static_cast<unsigned>(distance);
  return linnet::emulation::shuffle(linnet::emulation::Call::shfl_xor, mask, value, source);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source) {
  return linnet::emulation::shuffle(linnet::emulation::Call::shfl, mask, value, static_cast<unsigned>(source));
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance) {
  const unsigned lane = linnet::emulation::lane(), source = lane < distance ? lane : lane - distance;
  return linnet::emulation::shuffle(linnet::emulation::Call::shfl_up, mask, value, source);
}

inline int __float_as_int(float x) { return linnet::emulation::same_bits<int>(x); }
inline long long __double_as_longlong(double x) { return linnet::emulation::same_bits<long long>(x); }

// CUDA's overloads that the C++ standard library does not have.
using std::max;
using std::min;
template <class T>
T cospi(T x) {
  return static_cast<T>(std::cos(std::fmod(static_cast<double>(x), 2.0) * 3.14159265358979323846));
}
template <class T>
T rsqrt(T x) {
  return T(1) / std::sqrt(x);
}
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, Kernel* kernel) {
  return cudaFuncGetAttributes(attributes, reinterpret_cast<const void*>(kernel));
}
