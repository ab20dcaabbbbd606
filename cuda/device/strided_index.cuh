#pragma once

#include <array>
#include <cstdint>

#include <linnet/core/device/backend.h>
#include <linnet/core/error.h>

/// Offsets of elements in strided views.

namespace linnet::cuda {

/// a / b. 32-bit divisions are several times faster and nearly always suffice.
__device__ inline int64_t divide(int64_t a, int64_t b) {
  if (((a | b) >> 32) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

/// Returns the coordinate of an index along the innermost dim, of size `size`, and leaves the index along the others.
__device__ inline int64_t take_inner(int64_t& index, int64_t size) {
  const int64_t outer = divide(index, size), inner = index - outer * size;
  index = outer;
  return inner;
}

/// Offsets into N views, in elements.
template <int N>
struct Offsets {
  int64_t of[N];
};

/// The dims of N views of the same shape, passed to kernels by value. Dims of size 1 are dropped, and neighbouring
/// dims that are contiguous in every view are merged. Dim 0 is the innermost.
template <int N>
struct StridedIndex {
  static constexpr int kMaxRank = 24;  // after dropping and merging

  int rank = 0;
  int64_t count = 1;  ///< the product of the sizes
  int64_t size[kMaxRank];
  int64_t stride[kMaxRank][N];

  /// Adds a new outermost dim. Throws ShapeError when there are too many.
  void add(int64_t dim_size, const std::array<int64_t, N>& strides) {
    if (dim_size == 1) return;
    count *= dim_size;
    bool continues = rank > 0;
    for (int v = 0; v < N; ++v) {
      continues = continues && strides[v] == stride[rank - 1][v] * size[rank - 1];
    }
    if (continues) {
      size[rank - 1] *= dim_size;
      return;
    }
    if (rank == kMaxRank) {
      throw ShapeError("the GPU's kernels take at most " + std::to_string(kMaxRank) +
                       " dims that cannot be merged; use contiguous() or reshape() first, on the CPU");
    }
    size[rank] = dim_size;
    for (int v = 0; v < N; ++v) stride[rank][v] = strides[v];
    ++rank;
  }

  /// The offset of element `index` in each view.
  __device__ Offsets<N> at(int64_t index) const {
    Offsets<N> offsets = {};
    for (int d = 0; d < rank; ++d) {
      int64_t i = index;
      if (d < rank - 1) {  // the outermost dim needs no division
        index = divide(index, size[d]);
        i -= index * size[d];
      }
      for (int v = 0; v < N; ++v) offsets.of[v] += i * stride[d][v];
    }
    return offsets;
  }
};

/// All dims of the views except `dim`, with the sizes of the first view; all dims for `dim` −1.
template <int N>
StridedIndex<N> index_other_dims(const std::array<View, N>& views, int dim) {
  StridedIndex<N> index;
  for (int d = views[0].rank - 1; d >= 0; --d) {
    if (d == dim) continue;
    std::array<int64_t, N> strides;
    for (int v = 0; v < N; ++v) strides[v] = views[v].strides[d];
    index.add(views[0].shape[d], strides);
  }
  return index;
}

}  // namespace linnet::cuda
