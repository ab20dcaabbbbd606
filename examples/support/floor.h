#pragma once

#include <cstdint>
#include <vector>

#include <linnet/core/profile.h>

namespace linnet::examples {

/// out[m, n] = a[m, k] · b[k, n], `batch` times over.
struct MatrixProduct {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;  ///< how the operands lie in memory
};

/// The matrix products that kernels compute: those of `gemm`, and those inside attention, q·kᵀ and weights·v with the
/// four of their backward, as a program without fused attention would call for them.
std::vector<MatrixProduct> products_of(const std::vector<KernelCall>& calls);

/// What no program can beat whose products are OpenBLAS's or linnet's: the median time of the products alone, in
/// their order, by OpenBLAS with its own threads or by linnet, whichever is faster.
double floor_ms(const std::vector<MatrixProduct>& products);

}  // namespace linnet::examples
