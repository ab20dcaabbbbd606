#include <linnet/cuda/blas.cuh>

#include <mutex>

#include <cublas_v2.h>
#include <linnet/core/error.h>
#include <linnet/cuda/device.cuh>

namespace linnet::cuda {
namespace {

void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  cudaGetLastError();
  throw DeviceError(std::string("cuBLAS failed in ") + what + " (" + cublasGetStatusString(status) + ")");
}

/// cuBLAS's state, for one thread at a time.
struct Blas {
  cublasHandle_t handle = nullptr;
  std::mutex mutex;

  Blas() {
    check(cublasCreate(&handle), "its start");
    check(cublasSetStream(handle, stream()), "its start");
    const bool tf32 = is_set("LINNET_CUDA_TF32");
    check(cublasSetMathMode(handle, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH), "its start");
  }
};

/// Never destroyed: the driver may be gone before any static of ours.
Blas& blas() {
  static Blas* const instance = new Blas;
  return *instance;
}

constexpr auto gemm_strided_batched(float) { return cublasSgemmStridedBatched_64; }
constexpr auto gemm_strided_batched(double) { return cublasDgemmStridedBatched_64; }

}  // namespace

/// cuBLAS's matrices are column-major, in which ours are the transposed ones: outᵀ = bᵀ·aᵀ.
template <class T>
void gemm(int64_t batch, int64_t m, int64_t n, int64_t k, const Matrices<const T>& a, const Matrices<const T>& b,
          T beta, const Matrices<T>& out) {
  const T one = 1;
  const std::lock_guard<std::mutex> lock(blas().mutex);
  check(gemm_strided_batched(T{})(blas().handle, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                  a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b.data, b.leading,
                                  b.batch_stride, a.data, a.leading, a.batch_stride, &beta, out.data, out.leading,
                                  out.batch_stride, batch),
        "a matrix product");
  check_launch();
}

template void gemm(int64_t, int64_t, int64_t, int64_t, const Matrices<const float>&, const Matrices<const float>&,
                   float, const Matrices<float>&);
template void gemm(int64_t, int64_t, int64_t, int64_t, const Matrices<const double>&, const Matrices<const double>&,
                   double, const Matrices<double>&);

std::string describe_blas() {
  int version = 0;
  cublasGetVersion(blas().handle, &version);
  return "cuBLAS " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) +
         (is_set("LINNET_CUDA_TF32") ? " with TF32" : "");
}

}  // namespace linnet::cuda
