#pragma once

#include <cublas_v2.h>
#include <linnet/cuda/device/bfloat16.cuh>

namespace linnet::cuda {

/// A function of cuBLAS, or of cuBLASLt, on which cuBLAS depends. The library is loaded when it is first needed. It
/// is not linked, because linking adds a tenth of a second and 200 MB to the start of every program, with or without
/// a GPU. Throws DeviceError if there is no library or no such function.
void* find_blas_function(const char* name);

/// The result of `find_blas_function`, converted to a pointer of the right type.
///
///     decltype(&cublasCreate_v2) create = BlasFunction{"cublasCreate_v2"};
struct BlasFunction {
  const char* name;

  template <class Function>
  operator Function*() const {
    return reinterpret_cast<Function*>(find_blas_function(name));
  }
};

/// Throws DeviceError unless `status` is success, and MemoryError if memory ran out. `what` says what was tried: "a
/// matrix product".
void check_blas(cublasStatus_t status, const char* what);

/// cuBLAS's constants for a dtype, for the arithmetic of its products, and for the type of their scale factors. The
/// arithmetic of float32 follows `precision()`.
struct Arithmetic {
  cudaDataType dtype;
  cublasComputeType_t products;
  cudaDataType scale;
};
Arithmetic arithmetic_of(float);
Arithmetic arithmetic_of(double);
Arithmetic arithmetic_of(BFloat16);

}  // namespace linnet::cuda
