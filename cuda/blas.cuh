#pragma once

#include <cstdint>
#include <string>

namespace linnet::cuda {

/// A batch of row-major matrices, or of transposed ones: element (row, column) of matrix i is at
/// data[i · batch_stride + row · leading + column], or with row and column exchanged.
template <class T>
struct Matrices {
  T* data;
  int64_t leading, batch_stride;
  bool transposed;
};

/// out = a·b + beta·out, [batch, m, k]·[batch, k, n], by cuBLAS; those of float32 as `precision()` says. Throws
/// DeviceError.
template <class T>
void gemm(int64_t batch, int64_t m, int64_t n, int64_t k, const Matrices<const T>& a, const Matrices<const T>& b,
          T beta, const Matrices<T>& out);

/// out = a·b + bias for a batch of 1, bias [n] dense, in one kernel of cuBLASLt. Returns false, with
/// nothing done, where cuBLASLt has none for such operands.
template <class T>
bool gemm_with_bias(int64_t m, int64_t n, int64_t k, const Matrices<const T>& a, const Matrices<const T>& b,
                    const T* bias, const Matrices<T>& out);

std::string describe_blas();

}  // namespace linnet::cuda
