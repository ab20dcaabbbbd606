#include <linnet/cuda/matmul/blas.cuh>

#include <memory>
#include <mutex>

#include <linnet/cuda/device/allocator.cuh>
#include <linnet/cuda/device/device.cuh>
#include <linnet/cuda/device/precision.cuh>
#include <linnet/cuda/matmul/blas_library.cuh>

namespace linnet::cuda {
namespace {

/// cuBLAS and its state, for one thread at a time.
struct Blas {
  static constexpr size_t kWorkspace = size_t{32} << 20;  ///< NVIDIA's recommendation for its largest GPUs

  decltype(&cublasCreate_v2) create = BlasFunction{"cublasCreate_v2"};
  decltype(&cublasDestroy_v2) destroy = BlasFunction{"cublasDestroy_v2"};
  decltype(&cublasSetStream_v2) set_stream = BlasFunction{"cublasSetStream_v2"};
  decltype(&cublasSetWorkspace_v2) set_workspace = BlasFunction{"cublasSetWorkspace_v2"};
  decltype(&cublasSetMathMode) set_math_mode = BlasFunction{"cublasSetMathMode"};
  decltype(&cublasGemmStridedBatchedEx_64) gemm = BlasFunction{"cublasGemmStridedBatchedEx_64"};
  /// A fixed workspace, so that cuBLAS chooses the same kernels inside and outside of recordings. It does not count
  /// as memory of tensors.
  std::unique_ptr<void, decltype(&cudaFree)> workspace{nullptr, cudaFree};
  std::unique_ptr<cublasContext, decltype(destroy)> owned{nullptr, destroy};
  cublasHandle_t handle = nullptr;
  std::mutex mutex;

  Blas() {
    void* memory = nullptr;
    with_room([&] { check(cudaMalloc(&memory, kWorkspace), "asking for cuBLAS's workspace of 32 MiB"); });
    workspace.reset(memory);
    with_room([&] { check_blas(create(&handle), "its initialisation"); });
    owned.reset(handle);
    check_blas(set_stream(handle, stream()), "its initialisation");
    check_blas(set_workspace(handle, memory, kWorkspace), "its initialisation");
    // Without this, partial sums of a bfloat16 result may be rounded to bfloat16 before they are added.
    check_blas(set_math_mode(handle, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION), "its initialisation");
  }
};

/// Never destroyed, because the driver may shut down before static objects are destroyed.
Blas& blas() {
  static Blas* const instance = new Blas;
  return *instance;
}

}  // namespace

/// cuBLAS's matrices are column-major, so row-major matrices are their transposes: outᵀ = bᵀ·aᵀ.
template <class F, class T>
void gemm(int64_t batch, int64_t m, int64_t n, int64_t k, const Matrices<const F>& a, const Matrices<const F>& b,
          bool add, const Matrices<T>& out) {
  const ComputedIn<F> one = 1, before = add ? 1 : 0;
  const Arithmetic factors = arithmetic_of(F{});
  Blas& state = blas();
  const std::lock_guard<std::mutex> lock(state.mutex);
  check_blas(
      state.gemm(state.handle, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, n,
                 m, k, &one, b.data, factors.dtype, b.leading, b.batch_stride, a.data, factors.dtype, a.leading,
                 a.batch_stride, &before, out.data, arithmetic_of(T{}).dtype, out.leading, out.batch_stride, batch,
                 factors.products, CUBLAS_GEMM_DEFAULT),
      "a matrix product");
  check_launch();
}

template void gemm(int64_t, int64_t, int64_t, int64_t, const Matrices<const float>&, const Matrices<const float>&,
                   bool, const Matrices<float>&);
template void gemm(int64_t, int64_t, int64_t, int64_t, const Matrices<const double>&, const Matrices<const double>&,
                   bool, const Matrices<double>&);
template void gemm(int64_t, int64_t, int64_t, int64_t, const Matrices<const BFloat16>&,
                   const Matrices<const BFloat16>&, bool, const Matrices<BFloat16>&);
template void gemm(int64_t, int64_t, int64_t, int64_t, const Matrices<const BFloat16>&,
                   const Matrices<const BFloat16>&, bool, const Matrices<float>&);

/// Does not create a handle, because that would take GPU memory.
std::string describe_blas() {
  const decltype(&cublasGetProperty) get = BlasFunction{"cublasGetProperty"};
  int major = 0, minor = 0;
  get(MAJOR_VERSION, &major);
  get(MINOR_VERSION, &minor);
  return "cuBLAS " + std::to_string(major) + "." + std::to_string(minor) + " with " + name_of(precision()) +
         " products";
}

}  // namespace linnet::cuda
