#pragma once

#include <cuda_bf16.h>
#include <linnet/cuda/kernel.cuh>

/// bfloat16: in tensors it is storage, which kernels that move elements take and no others.

namespace linnet::cuda {

using BFloat16 = __nv_bfloat16;

/// `dispatch_any`, for bfloat16 too.
template <class F>
void dispatch_stored(DType dtype, F&& f) {
  if (dtype == DType::bfloat16) return f(BFloat16{});
  dispatch_any(dtype, f);
}

}  // namespace linnet::cuda
