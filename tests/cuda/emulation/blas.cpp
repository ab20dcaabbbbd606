#include <algorithm>

#include <cublas_v2.h>

#include "control.h"
#include "failure.h"
#include "product.h"
#include "stream.h"

/// The functions of cuBLAS that cuda/matmul/blas.cu uses. It opens the library by dlopen; here the name is "", so
/// that it gets the program itself.

struct cublasContext {
  cudaStream_t stream = nullptr;
  unsigned math_mode = CUBLAS_DEFAULT_MATH;
};

using linnet::emulation::Matrices, linnet::emulation::Product;

namespace {

int handles = 0;

cublasStatus_t status_told(const char* function = __builtin_FUNCTION()) {
  return static_cast<cublasStatus_t>(linnet::emulation::status_told(function));
}

}  // namespace

cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  if (const cublasStatus_t status = status_told()) return status;
  if (++handles > 1) linnet::emulation::fail("a second handle of cuBLAS: the first was not destroyed");
  *handle = new cublasContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  --handles;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t, void*, size_t) { return status_told(); }

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  handle->math_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType, int* value) {
  *value = 0;
  return CUBLAS_STATUS_SUCCESS;
}

const char* cublasGetStatusString(cublasStatus_t) { return "emulated"; }

cublasStatus_t cublasGemmStridedBatchedEx_64(cublasHandle_t handle, cublasOperation_t transpose_a,
                                             cublasOperation_t transpose_b, int64_t m, int64_t n, int64_t k,
                                             const void* alpha, const void* a, cudaDataType dtype_a,
                                             int64_t leading_a, long long stride_a, const void* b,
                                             cudaDataType dtype_b, int64_t leading_b, long long stride_b,
                                             const void* beta, void* c, cudaDataType dtype, int64_t leading,
                                             long long stride, int64_t batch, cublasComputeType_t type,
                                             cublasGemmAlgo_t) {
  if (const cublasStatus_t status = status_told()) return status;
  const bool is_a_transposed = transpose_a != CUBLAS_OP_N, is_b_transposed = transpose_b != CUBLAS_OP_N;
  if (dtype_a != dtype_b || std::min({m, n, k, batch}) < 0 || leading < std::max(m, int64_t{1}) ||
      leading_a < std::max(is_a_transposed ? k : m, int64_t{1}) ||
      leading_b < std::max(is_b_transposed ? n : k, int64_t{1})) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (dtype == CUDA_R_16BF && !(handle->math_mode & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)) {
    linnet::emulation::fail("cuBLAS may round parts of sums to bfloat16: its math mode allows that");
  }
  return linnet::emulation::dispatch(dtype_a, dtype, type, [&](auto factor, auto result, auto scale) {
    using F = decltype(factor);
    using T = decltype(result);
    using Scale = decltype(scale);
    if (*static_cast<const Scale*>(alpha) != 1) return CUBLAS_STATUS_NOT_SUPPORTED;
    const Matrices<const F> left{static_cast<const F*>(a), leading_a, stride_a, is_a_transposed};
    const Matrices<const F> right{static_cast<const F*>(b), leading_b, stride_b, is_b_transposed};
    const Matrices<T> out{static_cast<T*>(c), leading, stride, false};
    const Product<F, T> product{type, batch, m, n, k, left, right, *static_cast<const Scale*>(beta), out, nullptr};
    linnet::emulation::submit(handle->stream, [product] { multiply(product); });
    return CUBLAS_STATUS_SUCCESS;
  });
}
