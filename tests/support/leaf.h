#pragma once

#include <initializer_list>

#include <linnet/core/tensor.h>
#include <linnet/ops/array/creation.h>

namespace linnet::test {

/// A float64 vector that gets gradients.
inline Tensor leaf(std::initializer_list<double> values) {
  return tensor(values, DType::float64).set_requires_grad();
}

}  // namespace linnet::test
