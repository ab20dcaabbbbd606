#include <cstring>

#include <cublasLt.h>

#include "control.h"
#include "failure.h"
#include "product.h"
#include "stream.h"

/// The functions of cuBLASLt that cuda/matmul/blas_lt.cu uses: products with a bias. It has an algorithm for each.

struct cublasLtContext {};

using linnet::emulation::Matrices, linnet::emulation::Product;

namespace {

struct Description {
  cublasComputeType_t type;
  int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
};

struct Layout {
  cudaDataType dtype;
  int64_t rows, columns, leading;
};

struct Wishes {
  uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_MASK;
};

constexpr size_t kWorkspaceBytes = 1000;

const Description& of(cublasLtMatmulDesc_t description) { return *reinterpret_cast<const Description*>(description); }
const Layout& of(cublasLtMatrixLayout_t layout) { return *reinterpret_cast<const Layout*>(layout); }

struct Sizes {
  int64_t m, n, k;
  bool fit;
};

/// The sizes of the product with this description, and whether its matrices have them.
Sizes sizes(const Description& description, const Layout& a, const Layout& b, const Layout& out) {
  const bool transpose_a = description.transpose_a != CUBLAS_OP_N,
             transpose_b = description.transpose_b != CUBLAS_OP_N;
  const int64_t k = transpose_a ? a.rows : a.columns;
  return {out.rows, out.columns, k,
          (transpose_a ? a.columns : a.rows) == out.rows && (transpose_b ? b.rows : b.columns) == out.columns &&
              (transpose_b ? b.columns : b.rows) == k};
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description, cublasComputeType_t type, cudaDataType) {
  *description = reinterpret_cast<cublasLtMatmulDesc_t>(new Description{type});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  delete reinterpret_cast<Description*>(description);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  auto& description = *reinterpret_cast<Description*>(handle);
  const auto set = [=](auto& field) {
    if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(&field, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return set(description.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return set(description.transpose_b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return set(description.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return set(description.bias);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType dtype, uint64_t rows,
                                          uint64_t columns, int64_t leading) {
  if (const int status = linnet::emulation::status_told()) return static_cast<cublasStatus_t>(status);
  if (leading < static_cast<int64_t>(rows)) return CUBLAS_STATUS_INVALID_VALUE;
  *layout = reinterpret_cast<cublasLtMatrixLayout_t>(
      new Layout{dtype, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading});
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete reinterpret_cast<Layout*>(layout);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* wishes) {
  *wishes = reinterpret_cast<cublasLtMatmulPreference_t>(new Wishes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  auto& reductions = reinterpret_cast<Wishes*>(handle)->reductions;
  if (attribute != CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK) return CUBLAS_STATUS_SUCCESS;
  if (bytes != sizeof reductions) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&reductions, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t wishes) {
  delete reinterpret_cast<Wishes*>(wishes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t out,
                                              cublasLtMatmulPreference_t wishes, int,
                                              cublasLtMatmulHeuristicResult_t* found, int* count) {
  if (!sizes(of(description), of(a), of(b), of(out)).fit) return CUBLAS_STATUS_INVALID_VALUE;
  const uint32_t reductions = reinterpret_cast<const Wishes*>(wishes)->reductions;
  if (of(out).dtype == CUDA_R_16BF && (reductions & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE)) {
    linnet::emulation::fail("cuBLASLt may round parts of sums to bfloat16: the reduction schemes allow that");
  }
  found->workspaceSize = kWorkspaceBytes;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description_handle, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t layout_a, const void* b,
                              cublasLtMatrixLayout_t layout_b, const void* beta, const void* c,
                              cublasLtMatrixLayout_t, void* out, cublasLtMatrixLayout_t layout,
                              const cublasLtMatmulAlgo_t*, void* workspace, size_t workspace_bytes,
                              cudaStream_t stream) {
  if (const int status = linnet::emulation::status_told()) return static_cast<cublasStatus_t>(status);
  const Description& description = of(description_handle);
  const Sizes size = sizes(description, of(layout_a), of(layout_b), of(layout));
  if (!size.fit || c != out || workspace == nullptr || workspace_bytes < kWorkspaceBytes ||
      description.epilogue != CUBLASLT_EPILOGUE_BIAS || description.bias == nullptr) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  // Some versions refuse this on some GPUs, since they read it in pieces of 16 bytes.
  if (reinterpret_cast<uintptr_t>(description.bias) % 16 != 0) linnet::emulation::fail("a bias that is not aligned");
  if (of(layout_a).dtype != of(layout_b).dtype) return CUBLAS_STATUS_NOT_SUPPORTED;
  return linnet::emulation::dispatch(of(layout_a).dtype, of(layout).dtype, description.type,
                                     [&](auto factor, auto sum, auto scale) {
                                       using F = decltype(factor);
                                       using T = decltype(sum);
                                       using Scale = decltype(scale);
                                       if (*static_cast<const Scale*>(alpha) != 1) return CUBLAS_STATUS_NOT_SUPPORTED;
                                       const Matrices<const F> left{static_cast<const F*>(a), of(layout_a).leading, 0,
                                                                    description.transpose_a != CUBLAS_OP_N};
                                       const Matrices<const F> right{static_cast<const F*>(b), of(layout_b).leading,
                                                                     0, description.transpose_b != CUBLAS_OP_N};
                                       const Matrices<T> result{static_cast<T*>(out), of(layout).leading, 0, false};
                                       const Product<F, T> product{description.type,
                                                                   1,
                                                                   size.m,
                                                                   size.n,
                                                                   size.k,
                                                                   left,
                                                                   right,
                                                                   *static_cast<const Scale*>(beta),
                                                                   result,
                                                                   static_cast<const T*>(description.bias)};
                                       linnet::emulation::submit(stream, [product, workspace] {
                                         std::memset(workspace, 0xff, kWorkspaceBytes);
                                         multiply(product);
                                       });
                                       return CUBLAS_STATUS_SUCCESS;
                                     });
}
