#pragma once

#include <cublas_v2.h>
#include <linnet/cuda/device/bfloat16.cuh>

namespace linnet::cuda {

/// A function of cuBLAS, or of cuBLASLt, which cuBLAS brings along. They are loaded when first needed, not linked:
/// that would add a tenth of a second and 200 MB to the start of every program, whether or not it uses a GPU. Throws
/// DeviceError when there is none.
void* find_blas_function(const char* name);

/// The same as a pointer of the right type.
///
///     decltype(&cublasCreate_v2) create = BlasFunction{"cublasCreate_v2"};
struct BlasFunction {
  const char* name;

  template <class Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(find_blas_function(name));
  }
};

/// Throws DeviceError unless `status` is success, MemoryError where there was no room. `what` says what was tried: "a
/// matrix product".
void check_blas(cublasStatus_t status, const char* what);

/// A dtype, how products of its matrices are made, those of float32 as `precision()` says, and what they are scaled
/// by.
struct Arithmetic {
  cudaDataType dtype;
  cublasComputeType_t products;
  cudaDataType scale;
};
Arithmetic arithmetic_of(float);
Arithmetic arithmetic_of(double);
Arithmetic arithmetic_of(BFloat16);

}  // namespace linnet::cuda
