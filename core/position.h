#pragma once

#include <cstdint>

#include <linnet/core/shape.h>

namespace linnet::detail {

/// The indices of element `i`, in row-major order, of a tensor of this shape.
inline Shape position_of(int64_t i, const Shape& shape) {
  Shape position = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    position[d] = i % shape[d];
    i /= shape[d];
  }
  return position;
}

}  // namespace linnet::detail
