#include <linnet/cuda/matmul/blas.cuh>

#include <array>
#include <initializer_list>
#include <map>
#include <mutex>

#include <cublasLt.h>
#include <linnet/cuda/device/allocator.cuh>
#include <linnet/cuda/device/device.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/matmul/blas_library.cuh>

/// A product and its bias in one kernel, by cuBLASLt: another kernel would have to pass over the product once more.
///
/// Runs give the same bits: cuBLAS promises so of all its routines, for one version of it on one kind of GPU, and of
/// cublasLtMatmul with working memory of the caller's even beside other streams (its guide, "Results
/// Reproducibility").

namespace linnet::cuda {
namespace {

/// What we use of cuBLASLt.
struct Library {
  decltype(&cublasLtCreate) create = BlasFunction{"cublasLtCreate"};
  decltype(&cublasLtMatmul) multiply = BlasFunction{"cublasLtMatmul"};
  decltype(&cublasLtMatmulDescCreate) make_product = BlasFunction{"cublasLtMatmulDescCreate"};
  decltype(&cublasLtMatmulDescSetAttribute) set_product = BlasFunction{"cublasLtMatmulDescSetAttribute"};
  decltype(&cublasLtMatrixLayoutCreate) make_layout = BlasFunction{"cublasLtMatrixLayoutCreate"};
  decltype(&cublasLtMatmulPreferenceCreate) make_wishes = BlasFunction{"cublasLtMatmulPreferenceCreate"};
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_wishes = BlasFunction{"cublasLtMatmulPreferenceSetAttribute"};
  decltype(&cublasLtMatmulPreferenceDestroy) end_wishes = BlasFunction{"cublasLtMatmulPreferenceDestroy"};
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm = BlasFunction{"cublasLtMatmulAlgoGetHeuristic"};
};

/// How products of one kind are computed: what they look like, and the algorithm, if there is one for them.
struct Plan {
  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, out = nullptr;
  bool exists = false;
  cublasLtMatmulAlgo_t algorithm{};
  size_t scratch = 0;
};

/// All that a plan depends on, as numbers.
using Kind = std::array<int64_t, 13>;

/// cuBLASLt and its plans, for one thread at a time. A plan is made once, since to search for an algorithm takes
/// longer than to launch one; programs have as many as there are shapes of layers and batches in them.
struct Lt {
  Library library;
  cublasLtHandle_t handle = nullptr;
  std::map<Kind, Plan> plans;
  std::mutex mutex;

  Lt() {
    with_room([&] { check_blas(library.create(&handle), "its start"); });
  }

  template <class Value>
  void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    check_blas(library.set_product(product, attribute, &value, sizeof value), "describing a matrix product");
  }

  template <class Value>
  void set(cublasLtMatmulPreference_t wishes, cublasLtMatmulPreferenceAttributes_t attribute,
           const Value& value) const {
    check_blas(library.set_wishes(wishes, attribute, &value, sizeof value), "describing a matrix product");
  }

  /// [rows, columns] as it lies in memory, in column-major terms.
  template <class T>
  cublasLtMatrixLayout_t layout(cudaDataType dtype, const Matrices<T>& x, int64_t rows, int64_t columns) const {
    cublasLtMatrixLayout_t result = nullptr;
    check_blas(library.make_layout(&result, dtype, static_cast<uint64_t>(x.transposed ? rows : columns),
                                   static_cast<uint64_t>(x.transposed ? columns : rows), x.leading),
               "describing a matrix");
    return result;
  }

  /// Asks cuBLASLt for the algorithm that it takes for the fastest; any but success means that it has none.
  void find_algorithm(Plan& plan, uint32_t alignment) const {
    constexpr uint64_t kMostScratch = uint64_t{32} << 20;  // as its guide advises for the H100
    cublasLtMatmulPreference_t wishes = nullptr;
    check_blas(library.make_wishes(&wishes), "describing a matrix product");
    set(wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMostScratch);
    // Parts of a sum are added in the type of the sum, not in that of the result, which may be bfloat16.
    set(wishes, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    for (const auto operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(wishes, operand, alignment);
    }
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status =
        library.find_algorithm(handle, plan.product, plan.b, plan.a, plan.out, plan.out, wishes, 1, &found, &count);
    library.end_wishes(wishes);
    plan.exists = status == CUBLAS_STATUS_SUCCESS && count > 0;
    plan.algorithm = found.algo;
    plan.scratch = found.workspaceSize;
  }
};

/// Never destroyed: the driver may be gone before any static of ours.
Lt& lt() {
  static Lt* const instance = new Lt;
  return *instance;
}

/// The largest power of two, up to 256, that all addresses are multiples of.
uint32_t alignment_of(std::initializer_list<const void*> addresses) {
  uintptr_t bits = 256;
  for (const void* address : addresses) bits |= reinterpret_cast<uintptr_t>(address);
  return static_cast<uint32_t>(bits & (~bits + 1));
}

}  // namespace

/// cuBLASLt's matrices are column-major, in which ours are the transposed ones: outᵀ = bᵀ·aᵀ. Its bias is one number
/// a row, which is a column of ours.
template <class F, class T>
bool gemm_with_bias(int64_t m, int64_t n, int64_t k, const Matrices<const F>& a, const Matrices<const F>& b,
                    const T* bias, const Matrices<T>& out) {
  const Arithmetic factors = arithmetic_of(F{});
  const cudaDataType result = arithmetic_of(T{}).dtype;
  const uint32_t alignment = alignment_of({a.data, b.data, out.data}), bias_alignment = alignment_of({bias});
  const Kind kind{
      factors.dtype, factors.products, result,        m, n, k, a.leading, a.transposed, b.leading, b.transposed,
      out.leading,   alignment,        bias_alignment};
  Lt& state = lt();
  const std::lock_guard<std::mutex> lock(state.mutex);
  const auto [place, is_new] = state.plans.try_emplace(kind);
  Plan& plan = place->second;
  if (is_new) {
    check_blas(state.library.make_product(&plan.product, factors.products, factors.scale),
               "describing a matrix product");
    state.set(plan.product, CUBLASLT_MATMUL_DESC_TRANSA, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    state.set(plan.product, CUBLASLT_MATMUL_DESC_TRANSB, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    state.set(plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    state.set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    plan.a = state.layout(factors.dtype, a, m, k);
    plan.b = state.layout(factors.dtype, b, k, n);
    plan.out = state.layout(result, out, m, n);
    state.find_algorithm(plan, alignment);
  }
  if (!plan.exists) return false;
  state.set(plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const Scratch<char> scratch(static_cast<int64_t>(plan.scratch));
  const ComputedIn<F> one = 1, zero = 0;
  const cublasStatus_t status =
      state.library.multiply(state.handle, plan.product, &one, b.data, plan.b, a.data, plan.a, &zero, out.data,
                             plan.out, out.data, plan.out, &plan.algorithm, scratch.data(), plan.scratch, stream());
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {  // before anything was done
    plan.exists = false;
    return false;
  }
  check_blas(status, "a matrix product with a bias");
  check_launch();
  return true;
}

template bool gemm_with_bias(int64_t, int64_t, int64_t, const Matrices<const float>&, const Matrices<const float>&,
                             const float*, const Matrices<float>&);
template bool gemm_with_bias(int64_t, int64_t, int64_t, const Matrices<const double>&, const Matrices<const double>&,
                             const double*, const Matrices<double>&);
template bool gemm_with_bias(int64_t, int64_t, int64_t, const Matrices<const BFloat16>&,
                             const Matrices<const BFloat16>&, const BFloat16*, const Matrices<BFloat16>&);
template bool gemm_with_bias(int64_t, int64_t, int64_t, const Matrices<const BFloat16>&,
                             const Matrices<const BFloat16>&, const float*, const Matrices<float>&);

}  // namespace linnet::cuda
