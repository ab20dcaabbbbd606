#pragma once

#include <linnet/core/device/backend.h>

namespace linnet::cpu::LINNET_ISA {

/// Rows of a matrix, `stride` elements apart.
template <class T>
struct Rows {
  T* data;
  int64_t stride;

  T* operator[](int64_t i) const { return data + i * stride; }
  Rows from(int64_t i) const { return {data + i * stride, stride}; }
  operator Rows<const T>() const { return {data, stride}; }
};

/// The row stride that BLAS accepts: at least the width, and at least 1.
inline int64_t stride_for(int64_t stride, int64_t width) {
  const int64_t least = width > 1 ? width : 1;
  return stride > least ? stride : least;
}

/// The rows of head `h` in sequence `b` of x [B, H, N, D].
template <class T>
Rows<T> head_of(const View& x, int64_t b, int64_t h) {
  return {static_cast<T*>(x.data) + b * x.strides[0] + h * x.strides[1], stride_for(x.strides[2], x.shape[3])};
}

}  // namespace linnet::cpu::LINNET_ISA
