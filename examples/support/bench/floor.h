#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <linnet/core/device/profile.h>

#include "support/bench/timing.h"

namespace linnet::examples {

/// out[m, n] = a[m, k] · b[k, n], `batch` times over.
struct MatrixProduct {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;  ///< how the operands lie in memory
};

/// The matrix products that kernels compute: those of `gemm`, and those inside attention, q·kᵀ and weights·v with the
/// four of their backward, as a program without fused attention would call for them.
std::vector<MatrixProduct> products_of(const std::vector<KernelCall>& calls);

/// The floor of some work: the time of its products alone, in their order, by OpenBLAS with its own threads or by
/// linnet, whichever has the lower median; the two take turns, for `seconds` each. It is what the work is compared
/// with and no bound on it: fused attention, which never stores its weights, took 0.95 of its floor.
Timing measure_floor(const std::vector<MatrixProduct>& products, double seconds = 1);

/// Some work beside its floor.
struct BesideFloor {
  Timing work;
  std::optional<Timing> floor;  ///< none without products
};

/// Times the work in turns with its products, whose two ways have a fifth of its seconds each: what a machine does
/// from one second to the next moves both figures, and little of their ratio.
BesideFloor measure_beside_floor(const std::function<void()>& work, const std::vector<MatrixProduct>& products,
                                 double seconds);

}  // namespace linnet::examples
