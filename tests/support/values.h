#pragma once

#include <linnet/core/philox.h>
#include <linnet/core/tensor.h>

namespace linnet::test {

/// float64 values, evenly spread over [low, high), that `seed` decides on.
inline Tensor uniform(const Shape& shape, uint64_t seed, double low = -1, double high = 1) {
  Tensor x = Tensor::empty(shape, DType::float64);
  uint64_t i = 0;
  for (double& value : x.mutable_data<double>()) {
    value = low + (high - low) * (random_word({seed, 0}, i++) * 0x1p-32);
  }
  return x;
}

/// 0, 1, 2, … in row-major order.
inline Tensor counting(const Shape& shape) {
  Tensor x = Tensor::empty(shape, DType::float64);
  double next = 0;
  for (double& value : x.mutable_data<double>()) value = next++;
  return x;
}

}  // namespace linnet::test
