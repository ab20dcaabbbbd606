#include <linnet/cuda/blas.cuh>

#include <mutex>

#include <cublas_v2.h>
#include <dlfcn.h>
#include <linnet/core/error.h>
#include <linnet/cuda/device.cuh>
#include <linnet/cuda/precision.cuh>

/// cuBLAS is loaded when it is first needed, not linked: it would add a tenth of a second and 200 MB to the start of
/// every program, whether or not that uses a GPU.

namespace linnet::cuda {
namespace {

/// What we use of cuBLAS.
struct Library {
  void* handle = nullptr;
  decltype(&cublasCreate_v2) create = find<decltype(&cublasCreate_v2)>("cublasCreate_v2");
  decltype(&cublasSetStream_v2) set_stream = find<decltype(&cublasSetStream_v2)>("cublasSetStream_v2");
  decltype(&cublasSetWorkspace_v2) set_workspace = find<decltype(&cublasSetWorkspace_v2)>("cublasSetWorkspace_v2");
  decltype(&cublasGetVersion_v2) get_version = find<decltype(&cublasGetVersion_v2)>("cublasGetVersion_v2");
  decltype(&cublasGetStatusString) status_text = find<decltype(&cublasGetStatusString)>("cublasGetStatusString");
  decltype(&cublasGemmStridedBatchedEx_64) gemm =
      find<decltype(&cublasGemmStridedBatchedEx_64)>("cublasGemmStridedBatchedEx_64");

 private:
  /// The library that the system finds by its name, or the one that was there when linnet was built.
  void open() {
    handle = dlopen(LINNET_CUBLAS_NAME, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) handle = dlopen(LINNET_CUBLAS_PATH, RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) return;
    const char* cause = dlerror();
    throw DeviceError(std::string("cuBLAS cannot be loaded (") + (cause != nullptr ? cause : "no cause given") +
                      "); install the CUDA Toolkit's " LINNET_CUBLAS_NAME " or name its folder in LD_LIBRARY_PATH");
  }

  template <class Function>
  Function find(const char* name) {
    if (handle == nullptr) open();
    void* const symbol = dlsym(handle, name);
    if (symbol == nullptr) throw DeviceError(std::string(LINNET_CUBLAS_NAME " has no ") + name);
    return reinterpret_cast<Function>(symbol);
  }
};

/// cuBLAS and its state, for one thread at a time.
struct Blas {
  static constexpr size_t kWorkspace = size_t{32} << 20;  ///< what NVIDIA recommends for its largest

  Library library;
  cublasHandle_t handle = nullptr;
  std::mutex mutex;

  Blas() {
    check(library.create(&handle), "its start");
    check(library.set_stream(handle, stream()), "its start");
    // Of our own, so that it chooses its kernels alike within recordings and outside of them.
    void* workspace = nullptr;
    cuda::check(cudaMalloc(&workspace, kWorkspace), "taking memory of the GPU");
    check(library.set_workspace(handle, workspace, kWorkspace), "its start");
  }

  void check(cublasStatus_t status, const char* what) const {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    cudaGetLastError();
    throw DeviceError(std::string("cuBLAS failed in ") + what + " (" + library.status_text(status) + ")");
  }
};

/// Never destroyed: the driver may be gone before any static of ours.
Blas& blas() {
  static Blas* const instance = new Blas;
  return *instance;
}

/// A dtype, and how products of its matrices are made.
struct Arithmetic {
  cudaDataType dtype;
  cublasComputeType_t products;
};

Arithmetic arithmetic_of(double) { return {CUDA_R_64F, CUBLAS_COMPUTE_64F}; }

Arithmetic arithmetic_of(float) {
  switch (precision()) {
    case Precision::tf32: return {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
    case Precision::bfloat16: return {CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_16BF};
    default: return {CUDA_R_32F, CUBLAS_COMPUTE_32F};
  }
}

}  // namespace

/// cuBLAS's matrices are column-major, in which ours are the transposed ones: outᵀ = bᵀ·aᵀ.
template <class T>
void gemm(int64_t batch, int64_t m, int64_t n, int64_t k, const Matrices<const T>& a, const Matrices<const T>& b,
          T beta, const Matrices<T>& out) {
  const T one = 1;
  const auto [dtype, products] = arithmetic_of(T{});
  Blas& state = blas();
  const std::lock_guard<std::mutex> lock(state.mutex);
  state.check(state.library.gemm(state.handle, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                 a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b.data, dtype, b.leading,
                                 b.batch_stride, a.data, dtype, a.leading, a.batch_stride, &beta, out.data, dtype,
                                 out.leading, out.batch_stride, batch, products, CUBLAS_GEMM_DEFAULT),
              "a matrix product");
  check_launch();
}

template void gemm(int64_t, int64_t, int64_t, int64_t, const Matrices<const float>&, const Matrices<const float>&,
                   float, const Matrices<float>&);
template void gemm(int64_t, int64_t, int64_t, int64_t, const Matrices<const double>&, const Matrices<const double>&,
                   double, const Matrices<double>&);

std::string describe_blas() {
  int version = 0;
  blas().library.get_version(blas().handle, &version);
  return "cuBLAS " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + " with " +
         name_of(precision()) + " products";
}

}  // namespace linnet::cuda
