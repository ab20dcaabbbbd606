#include <linnet/cuda/matmul/blas_library.cuh>

#include <string>

#include <dlfcn.h>
#include <linnet/core/error.h>
#include <linnet/cuda/device/allocator.cuh>
#include <linnet/cuda/device/device.cuh>
#include <linnet/cuda/device/precision.cuh>
#include <linnet/cuda/device/recording.cuh>

namespace linnet::cuda {
namespace {

/// Opens the library that the system finds by its name, or else the one with which linnet was built.
void* open_library() {
  void* library = dlopen(LINNET_CUBLAS_NAME, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen(LINNET_CUBLAS_PATH, RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) return library;
  const char* cause = dlerror();
  throw DeviceError(std::string("cuBLAS cannot be loaded (") + (cause != nullptr ? cause : "no cause given") +
                    "); install the CUDA Toolkit's " LINNET_CUBLAS_NAME " or name its folder in LD_LIBRARY_PATH");
}

}  // namespace

/// dlsym also searches the libraries that cuBLAS depends on, such as cuBLASLt.
void* find_blas_function(const char* name) {
  static void* const library = open_library();
  void* const function = dlsym(library, name);
  if (function == nullptr) throw DeviceError(std::string(LINNET_CUBLAS_NAME " has no ") + name);
  return function;
}

void check_blas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaGetLastError();
  if (!is_recording()) synchronise(what);  // throws the error of an earlier kernel, if that was the cause
  if (status == CUBLAS_STATUS_ALLOC_FAILED) refuse_memory(std::string("cuBLAS, in ") + what);
  static const decltype(&cublasGetStatusString) text_of = BlasFunction{"cublasGetStatusString"};
  throw DeviceError(std::string("cuBLAS failed in ") + what + " (" + text_of(status) + ")");
}

Arithmetic arithmetic_of(double) { return {CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F}; }

Arithmetic arithmetic_of(BFloat16) { return {CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F}; }

Arithmetic arithmetic_of(float) {
  switch (precision()) {
    case Precision::tf32: return {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F};
    case Precision::bfloat16: return {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_16BF, CUDA_R_32F};
    default: return {CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
  }
}

}  // namespace linnet::cuda
