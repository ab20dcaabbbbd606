#pragma once

#include <utility>

#include <linnet/ops/cpu/device/kernel.h>

/// Indices over some dims of views, for kernels that loop over the other dims themselves.

namespace linnet::cpu::LINNET_ISA {

/// Dims that N views step through together; dim 0 is the innermost.
template <int N>
struct StridedIndex {
  int rank = 0;
  int64_t count = 1;  ///< positions: the product of the sizes
  int64_t size[CollapsedDims<N>::kMaxRank];
  std::array<int64_t, N> stride[CollapsedDims<N>::kMaxRank];

  void add(int64_t dim_size, const std::array<int64_t, N>& strides) {
    if (dim_size == 1) return;
    size[rank] = dim_size;
    stride[rank++] = strides;
    count *= dim_size;
  }

  /// The offset of position `index` in each view, in elements.
  std::array<int64_t, N> at(int64_t index) const {
    std::array<int64_t, N> offsets{};
    for (int d = 0; d < rank; ++d) {
      const bool outermost = d == rank - 1;
      const int64_t i = outermost ? index : index % size[d];
      if (!outermost) index /= size[d];
      for (int v = 0; v < N; ++v) offsets[v] += i * stride[d][v];
    }
    return offsets;
  }

  /// Calls `f(at)` for the positions begin … end − 1, in order, with the offset at[v] in each view.
  template <class F>
  void for_each(int64_t begin, int64_t end, F&& f) const {
    std::array<int64_t, N> offsets = at(begin);
    int64_t index[CollapsedDims<N>::kMaxRank];
    for (int64_t d = 0, rest = begin; d < rank; ++d) {
      index[d] = rest % size[d];
      rest /= size[d];
    }
    while (begin < end) {
      const int64_t row = rank == 0 ? 1 : size[0] - index[0], steps = row < end - begin ? row : end - begin;
      const std::array<int64_t, N> step = rank == 0 ? offsets : stride[0];
      for (int64_t i = 0; i < steps; ++i) {
        f(std::as_const(offsets));
        for (int v = 0; v < N; ++v) offsets[v] += step[v];
      }
      begin += steps;
      if (begin == end) return;
      index[0] = size[0];
      for (int d = 0; index[d] == size[d]; ++d) {
        for (int v = 0; v < N; ++v) offsets[v] += stride[d + 1][v] - size[d] * stride[d][v];
        index[d] = 0;
        ++index[d + 1];
      }
    }
  }
};

/// An index over all dims of the views except `dim` and `other`, with the sizes of the first view.
template <int N>
StridedIndex<N> index_other_dims(const std::array<View, N>& views, int dim, int other = -1) {
  StridedIndex<N> index;
  for (int d = views[0].rank - 1; d >= 0; --d) {
    if (d == dim || d == other) continue;
    std::array<int64_t, N> strides;
    for (int v = 0; v < N; ++v) strides[v] = views[v].strides[d];
    index.add(views[0].shape[d], strides);
  }
  return index;
}

/// Calls `line(at)` for every line of the views along `dim`, on several threads: at[v] is the offset of its
/// first element in view v. The views agree in all sizes except that of `dim`; a line costs about `cost`
/// additions.
template <int N, class Line>
void for_each_line(const std::array<View, N>& views, int dim, int64_t cost, Line&& line) {
  const StridedIndex<N> index = index_other_dims<N>(views, dim);
  const int64_t grain = cost < kGrain ? kGrain / (cost > 0 ? cost : 1) : 1;
  parallel_for(index.count, grain, [&](int64_t begin, int64_t end) { index.for_each(begin, end, line); });
}

}  // namespace linnet::cpu::LINNET_ISA
