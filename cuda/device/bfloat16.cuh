#pragma once

#include <type_traits>

#include <cuda_bf16.h>
#include <linnet/cuda/device/kernel.cuh>

/// bfloat16 is only a storage type. Kernels that only move elements move its bytes. Kernels that compute convert it
/// to float, and round their results to nearest even.

namespace linnet::cuda {

using BFloat16 = __nv_bfloat16;

/// The type in which elements of type E are computed.
template <class E>
using ComputedIn = std::conditional_t<std::is_same_v<E, BFloat16>, float, E>;

/// `dispatch_any`, also for bfloat16.
template <class F>
void dispatch_stored(DType dtype, F&& f) {
  if (dtype == DType::bfloat16) return f(BFloat16{});
  dispatch_any(dtype, f);
}

/// `dispatch_floating`, also for bfloat16: calls `f(auto stored, auto computed)` with a zero of the elements' type
/// and a zero of the type in which they are computed.
template <class F>
void dispatch_computed(DType dtype, F&& f) {
  if (dtype == DType::bfloat16) return f(BFloat16{}, float{});
  dispatch_floating(dtype, [&](auto zero) { f(zero, zero); });
}

}  // namespace linnet::cuda
