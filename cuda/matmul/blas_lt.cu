#include <linnet/cuda/matmul/blas.cuh>

#include <array>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include <cublasLt.h>
#include <linnet/cuda/device/allocator.cuh>
#include <linnet/cuda/device/device.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/matmul/blas_library.cuh>

/// A product and its bias in one kernel of cuBLASLt. A separate kernel for the bias would read and write the product
/// again.
///
/// Every run gives the same bits. cuBLAS guarantees this for all its routines, for one version on one kind of GPU.
/// For cublasLtMatmul with a workspace of the caller, this holds even if other streams run (its guide, "Results
/// Reproducibility").

namespace linnet::cuda {
namespace {

/// The functions of cuBLASLt that are used here.
struct Library {
  decltype(&cublasLtCreate) create = BlasFunction{"cublasLtCreate"};
  decltype(&cublasLtMatmul) multiply = BlasFunction{"cublasLtMatmul"};
  decltype(&cublasLtMatmulDescCreate) make_product = BlasFunction{"cublasLtMatmulDescCreate"};
  decltype(&cublasLtMatmulDescDestroy) destroy_product = BlasFunction{"cublasLtMatmulDescDestroy"};
  decltype(&cublasLtMatmulDescSetAttribute) set_product = BlasFunction{"cublasLtMatmulDescSetAttribute"};
  decltype(&cublasLtMatrixLayoutCreate) make_layout = BlasFunction{"cublasLtMatrixLayoutCreate"};
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout = BlasFunction{"cublasLtMatrixLayoutDestroy"};
  decltype(&cublasLtMatmulPreferenceCreate) make_preference = BlasFunction{"cublasLtMatmulPreferenceCreate"};
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference =
      BlasFunction{"cublasLtMatmulPreferenceSetAttribute"};
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference = BlasFunction{"cublasLtMatmulPreferenceDestroy"};
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithm = BlasFunction{"cublasLtMatmulAlgoGetHeuristic"};
};

/// A descriptor, and the function that destroys it.
template <class T>
using Owned = std::unique_ptr<T, cublasStatus_t (*)(T*)>;
using Product = Owned<cublasLtMatmulDescOpaque_t>;
using Layout = Owned<cublasLtMatrixLayoutOpaque_t>;
using Preference = Owned<cublasLtMatmulPreferenceOpaque_t>;

/// The descriptors of a product, and its algorithm, if cuBLASLt has one.
struct LtPlan {
  Product product;
  Layout a, b, out;
  bool exists = false;
  cublasLtMatmulAlgo_t algorithm{};
  size_t scratch = 0;
};

/// Everything that a plan depends on, as numbers.
using LtPlanKey = std::array<int64_t, 13>;

/// cuBLASLt and its plans, for one thread at a time. Plans are kept, because searching for an algorithm takes longer
/// than a launch. A program has one plan for each shape of its layers and batches.
struct Lt {
  Library library;
  cublasLtHandle_t handle = nullptr;
  std::map<LtPlanKey, LtPlan> plans;
  std::mutex mutex;

  Lt() {
    with_room([&] { check_blas(library.create(&handle), "its initialisation"); });
  }

  template <class Value>
  void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const Value& value) const {
    check_blas(library.set_product(product, attribute, &value, sizeof value), "describing a matrix product");
  }

  template <class Value>
  void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
           const Value& value) const {
    check_blas(library.set_preference(preference, attribute, &value, sizeof value), "describing a matrix product");
  }

  Product product(const Arithmetic& factors) const {
    cublasLtMatmulDesc_t result = nullptr;
    check_blas(library.make_product(&result, factors.products, factors.scale), "describing a matrix product");
    return {result, library.destroy_product};
  }

  Preference preference() const {
    cublasLtMatmulPreference_t result = nullptr;
    check_blas(library.make_preference(&result), "describing a matrix product");
    return {result, library.destroy_preference};
  }

  /// The layout of a matrix [rows, columns], which cuBLASLt describes in column-major order.
  template <class T>
  Layout layout(cudaDataType dtype, const Matrices<T>& x, int64_t rows, int64_t columns) const {
    cublasLtMatrixLayout_t result = nullptr;
    check_blas(library.make_layout(&result, dtype, static_cast<uint64_t>(x.transposed ? rows : columns),
                                   static_cast<uint64_t>(x.transposed ? columns : rows), x.leading),
               "describing a matrix");
    return {result, library.destroy_layout};
  }

  /// Asks cuBLASLt for the algorithm that it expects to be fastest. A status other than success means that there is
  /// none.
  void find_algorithm(LtPlan& plan, uint32_t alignment) const {
    constexpr uint64_t kMaxScratch = uint64_t{32} << 20;  // as its guide advises for the H100
    const Preference wishes = preference();
    set(wishes.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kMaxScratch);
    // Partial sums are added in the type of the sum, not in the type of the result, which may be bfloat16.
    set(wishes.get(), CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
    for (const auto operand :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(wishes.get(), operand, alignment);
    }
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    const cublasStatus_t status =
        library.find_algorithm(handle, plan.product.get(), plan.b.get(), plan.a.get(), plan.out.get(), plan.out.get(),
                               wishes.get(), 1, &found, &count);
    plan.exists = status == CUBLAS_STATUS_SUCCESS && count > 0;
    plan.algorithm = found.algo;
    plan.scratch = found.workspaceSize;
  }
};

/// Never destroyed, because the driver may shut down before static objects are destroyed.
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

/// cuBLASLt's matrices are column-major, so row-major matrices are their transposes: outᵀ = bᵀ·aᵀ. Its bias has one
/// element for each row, which is a column here.
template <class F, class T>
bool gemm_with_bias(int64_t m, int64_t n, int64_t k, const Matrices<const F>& a, const Matrices<const F>& b,
                    const T* bias, const Matrices<T>& out) {
  const Arithmetic factors = arithmetic_of(F{});
  const cudaDataType result = arithmetic_of(T{}).dtype;
  const uint32_t alignment = alignment_of({a.data, b.data, out.data}), bias_alignment = alignment_of({bias});
  const LtPlanKey key{
      factors.dtype, factors.products, result,        m, n, k, a.leading, a.transposed, b.leading, b.transposed,
      out.leading,   alignment,        bias_alignment};
  Lt& state = lt();
  const std::lock_guard<std::mutex> lock(state.mutex);
  auto place = state.plans.find(key);
  if (place == state.plans.end()) {  // kept once it is whole: an error here does not mean that there is no algorithm
    LtPlan made{state.product(factors), state.layout(factors.dtype, a, m, k), state.layout(factors.dtype, b, k, n),
                state.layout(result, out, m, n)};
    state.set(made.product.get(), CUBLASLT_MATMUL_DESC_TRANSA, b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    state.set(made.product.get(), CUBLASLT_MATMUL_DESC_TRANSB, a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
    state.set(made.product.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    state.set(made.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    state.find_algorithm(made, alignment);
    place = state.plans.emplace(key, std::move(made)).first;
  }
  LtPlan& plan = place->second;
  if (!plan.exists) return false;
  state.set(plan.product.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const Scratch<char> scratch(static_cast<int64_t>(plan.scratch));
  const ComputedIn<F> one = 1, zero = 0;
  const cublasStatus_t status = state.library.multiply(
      state.handle, plan.product.get(), &one, b.data, plan.b.get(), a.data, plan.a.get(), &zero, out.data,
      plan.out.get(), out.data, plan.out.get(), &plan.algorithm, scratch.data(), plan.scratch, stream());
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {  // returned before any work
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
