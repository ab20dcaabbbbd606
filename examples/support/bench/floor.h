#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <linnet/core/device/profile.h>

#include "support/bench/timing.h"

namespace linnet::examples {

/// The product out[m, n] = a[m, k] · b[k, n], `batch` times.
struct MatrixProduct {
  int64_t batch, m, n, k;
  bool transpose_a, transpose_b;  ///< whether an operand is stored column by column
};

/// The matrix products in these calls: those of `gemm`, and those that attention would need if it were not fused,
/// q·kᵀ and weights·v forward and four backward.
std::vector<MatrixProduct> products_of(const std::vector<KernelCall>& calls);

/// The floor of some work: the time of its matrix products alone, in their order. OpenBLAS, with its own threads, and
/// linnet take turns for `seconds` each, and the lower median counts. The floor is for comparison and no lower bound:
/// fused attention, which never stores its weights, took 0.95 of its floor.
Timing measure_floor(const std::vector<MatrixProduct>& products, double seconds = 1);

/// Times of some work and of its floor.
struct BesideFloor {
  Timing work;
  std::optional<Timing> floor;  ///< none if the work has no products
};

/// Times the work in turns with its floor, so that changes in the machine's speed affect both and their ratio little.
/// OpenBLAS and linnet take a fifth of `seconds` each for the floor.
BesideFloor measure_beside_floor(const std::function<void()>& work, const std::vector<MatrixProduct>& products,
                                 double seconds);

}  // namespace linnet::examples
