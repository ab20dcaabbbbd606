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

// Factors have type F and results type T: the same type, or F = bfloat16 with T = float. Sums of bfloat16 products
// are float. Factors of type float are multiplied in the precision of `precision()`.

/// out = a·b, [batch, m, k]·[batch, k, n], by cuBLAS; out += a·b if `add`. Throws DeviceError.
template <class F, class T>
void gemm(int64_t batch, int64_t m, int64_t n, int64_t k, const Matrices<const F>& a, const Matrices<const F>& b,
          bool add, const Matrices<T>& out);

/// out = a·b + bias for a batch of 1 and a contiguous bias [n], in one kernel of cuBLASLt. Returns false and does
/// nothing if cuBLASLt has no kernel for such operands.
template <class F, class T>
bool gemm_with_bias(int64_t m, int64_t n, int64_t k, const Matrices<const F>& a, const Matrices<const F>& b,
                    const T* bias, const Matrices<T>& out);

std::string describe_blas();

}  // namespace linnet::cuda
