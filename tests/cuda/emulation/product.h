#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include <cublas_v2.h>
#include <cuda_bf16.h>

/// Matrix products as cuBLAS defines them: column-major, c[m, n] = a[m, k]·b[k, n] + beta·c + bias[m].

namespace linnet::emulation {

/// A batch of matrices; T is const for factors.
template <class T>
struct Matrices {
  T* data;
  int64_t leading, stride;  ///< between columns, and between matrices
  bool transposed;
};

/// A product of factors of type F, with a result of type T.
template <class F, class T>
struct Product {
  cublasComputeType_t type;
  int64_t batch, m, n, k;
  Matrices<const F> a, b;
  double beta;
  Matrices<T> c;
  const T* bias;  ///< or null
};

/// A factor as a product of the given type sees it: rounded to nearest even, without 13 of float's 23 bits for tf32,
/// or 16 for bfloat16.
template <class T>
T round_factor(T x, cublasComputeType_t type) {
  const int dropped = type == CUBLAS_COMPUTE_32F_FAST_TF32 ? 13 : type == CUBLAS_COMPUTE_32F_FAST_16BF ? 16 : 0;
  if constexpr (std::is_same_v<T, float>) {
    if (dropped == 0 || !std::isfinite(x)) return x;
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
    bits &= ~((1u << dropped) - 1);
    std::memcpy(&x, &bits, sizeof bits);
  }
  return x;
}

/// Matrix `i` of a batch, its factors rounded, without gaps.
template <class F, class T>
std::vector<F> packed(const Product<F, T>& product, const Matrices<const F>& x, int64_t i, int64_t rows,
                      int64_t columns) {
  std::vector<F> result;
  result.reserve(static_cast<size_t>(rows * columns));
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = x.transposed ? r * x.leading + c : c * x.leading + r;
      result.push_back(round_factor(x.data[i * x.stride + at], product.type));
    }
  }
  return result;
}

template <class F, class T>
void multiply(const Product<F, T>& product) {
  const auto& [type, batch, m, n, k, left, right, beta, c, bias] = product;
  for (int64_t i = 0; i < batch; ++i) {
    const std::vector<F> a = packed(product, left, i, m, k), b = packed(product, right, i, k, n);
    for (int64_t column = 0; column < n; ++column) {
      std::vector<double> sum(static_cast<size_t>(m));
      for (int64_t l = 0; l < k; ++l) {
        const auto factor = static_cast<double>(b[static_cast<size_t>(column * k + l)]);
        for (int64_t r = 0; r < m; ++r) {
          sum[static_cast<size_t>(r)] += static_cast<double>(a[static_cast<size_t>(l * m + r)]) * factor;
        }
      }
      T* out = c.data + i * c.stride + column * c.leading;
      for (int64_t r = 0; r < m; ++r) {
        const double before = beta == 0 ? 0 : beta * static_cast<double>(out[r]);  // for beta 0, c is not read
        const double offset = bias == nullptr ? 0 : static_cast<double>(bias[r]);
        out[r] = static_cast<T>(sum[static_cast<size_t>(r)] + before + offset);
      }
    }
  }
}

/// Calls `f` with zeros of the types of factors, result and scale, if cuBLAS has such products.
template <class F>
cublasStatus_t dispatch(cudaDataType factors, cudaDataType result, cublasComputeType_t type, const F& f) {
  const bool doubles = type == CUBLAS_COMPUTE_64F;
  if (factors == CUDA_R_64F && result == CUDA_R_64F && doubles) return f(double{}, double{}, double{});
  if (doubles) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (factors == CUDA_R_32F && result == CUDA_R_32F) return f(float{}, float{}, float{});
  if (factors != CUDA_R_16BF || type != CUBLAS_COMPUTE_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (result == CUDA_R_32F) return f(__nv_bfloat16{}, float{}, float{});
  return result == CUDA_R_16BF ? f(__nv_bfloat16{}, __nv_bfloat16{}, float{}) : CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace linnet::emulation
