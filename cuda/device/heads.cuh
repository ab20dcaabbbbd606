#pragma once

#include <cstdint>

#include <linnet/core/device/backend.h>

namespace linnet::cuda {

/// A kernel argument: a view [B, H, N, D] with stride 1 in D, or [B, H, N].
template <class T>
struct HeadsView {
  T* data;
  int64_t batch_stride, head_stride, row_stride;

  explicit HeadsView(const View& x)
      : data(static_cast<T*>(x.data)),
        batch_stride(x.strides[0]),
        head_stride(x.strides[1]),
        row_stride(x.strides[2]) {}

  __device__ T* at(int64_t b, int64_t h, int64_t i) const {
    return data + b * batch_stride + h * head_stride + i * row_stride;
  }
};

/// A kernel argument: the padding mask [B, N] or [B, H, N]. If `data` is null, no token is padding.
struct PaddingMask {
  const bool* data = nullptr;
  int64_t batch_stride = 0, head_stride = 0, stride = 0;

  PaddingMask() = default;
  explicit PaddingMask(const View* x) {
    if (x == nullptr) return;
    data = static_cast<const bool*>(x->data);
    batch_stride = x->strides[0];
    head_stride = x->rank == 3 ? x->strides[1] : 0;
    stride = x->strides[x->rank - 1];
  }

  /// For the mask [B, N].
  __device__ bool has(int64_t b, int64_t i) const { return has(b, 0, i); }
  __device__ bool has(int64_t b, int64_t h, int64_t i) const {
    return data == nullptr || data[b * batch_stride + h * head_stride + i * stride];
  }
};

}  // namespace linnet::cuda
