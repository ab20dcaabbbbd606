#include <algorithm>

#include <linnet/ops/cpu/device/strided_index.h>

/// Reading, adding and writing at indices. Bound by memory latency, since indices are arbitrary. The `index_*`
/// kernels are `gather` and `scatter_add` with an index that is constant along all dims but one: a view with strides
/// of 0.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Strides that are `stride` in dim `dim`, and in all other dims 0 or those of a view.
struct Strides {
  int64_t of[CollapsedDims<1>::kMaxRank];

  Strides(int rank, int dim, int64_t stride) {
    for (int d = 0; d < rank; ++d) of[d] = d == dim ? stride : 0;
  }
  Strides(const View& view, int dim, int64_t stride) {
    for (int d = 0; d < view.rank; ++d) of[d] = d == dim ? stride : view.strides[d];
  }
};

/// Copies rows along the last dim, each from the place that one entry of the index chooses. Finds the places of many
/// rows before it copies the first, so that their loads overlap.
template <class T>
void gather_rows(const View& out, const View& from, const View& index, int64_t x_step) {
  constexpr int64_t kTogether = 32, kFetched = 256 / sizeof(T);  // the hardware prefetches the rest of a long row
  const int64_t width = out.shape[out.rank - 1];
  const StridedIndex<3> rows = index_other_dims<3>({out, from, index}, out.rank - 1);
  parallel_for(rows.count, std::max<int64_t>(1, kGrain / width), [&](int64_t begin, int64_t end) {
    const T* sources[kTogether];
    T* targets[kTogether];
    int64_t count = 0;
    const auto copy = [&] {
      for (int64_t r = 0; r < count; ++r) std::copy_n(sources[r], width, targets[r]);
      count = 0;
    };
    rows.for_each(begin, end, [&](const auto& at) {
      sources[count] = data<T>(from) + at[1] + data<int64_t>(index)[at[2]] * x_step;
      targets[count] = data<T>(out) + at[0];
      fetch(sources[count], std::min(width, kFetched));
      if (++count == kTogether) copy();
    });
    copy();
  });
}

void gather(View out, View x, View index, int dim) {
  if (numel(out) == 0) return;
  // The offset in x of each element of out, without the index's contribution.
  const Strides start(x, dim, 0);
  const View from{x.data, x.dtype, x.rank, out.shape, start.of};
  const int64_t x_step = x.strides[dim];
  const int last = out.rank - 1;
  constexpr int64_t kRow = 8;  // shorter rows are not worth copying as rows
  const bool has_rows = last != dim && out.shape[last] >= kRow && index.strides[last] == 0 && x.strides[last] == 1 &&
                        out.strides[last] == 1;
  dispatch_any(x.dtype, [&]<class T>(T) {
    if (has_rows) return gather_rows<T>(out, from, index, x_step);
    for_each_row<3>({out, from, index}, [&](int64_t n, const auto& at, const auto& step) {
      T* y = data<T>(out) + at[0];
      const T* a = data<T>(x) + at[1];
      const int64_t* chosen = data<int64_t>(index) + at[2];
      const int64_t y_step = step[0], a_step = step[1], chosen_step = step[2];
      for (int64_t i = 0; i < n; ++i) y[i * y_step] = a[i * a_step + chosen[i * chosen_step] * x_step];
    });
  });
}

/// Calls put(out element, src element) along `dim` in order. A task has a range of the last dim, so no two tasks
/// write to one element.
template <class T, class Put>
void put_in_order(const View& out, const View& index, const View& src, int dim, Put put) {
  constexpr int64_t kColumns = 64;
  const int64_t n = src.shape[dim];
  const int last = src.rank - 1;
  const bool columns = dim != last;
  const int64_t width = columns ? src.shape[last] : 1;
  const int64_t column_ranges = ceil_div(width, kColumns);
  const int64_t out_column = columns ? out.strides[last] : 0;
  const int64_t index_column = columns ? index.strides[last] : 0;
  const int64_t src_column = columns ? src.strides[last] : 0;

  const StridedIndex<3> outer = index_other_dims<3>({src, out, index}, dim, last);
  const int64_t cost = n * (width < kColumns ? width : kColumns);
  parallel_for(outer.count * column_ranges, cost < kGrain ? kGrain / (cost > 0 ? cost : 1) : 1,
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) {
                   const auto at = outer.at(task / column_ranges);
                   const int64_t first = task % column_ranges * kColumns;
                   const int64_t count = width - first < kColumns ? width - first : kColumns;
                   const T* from = data<T>(src) + at[0] + first * src_column;
                   T* to = data<T>(out) + at[1] + first * out_column;
                   const int64_t* chosen = data<int64_t>(index) + at[2] + first * index_column;
                   for (int64_t i = 0; i < n; ++i, from += src.strides[dim], chosen += index.strides[dim]) {
                     T* row = to + *chosen * out.strides[dim];
                     if (index_column == 0 && out_column == 1 && src_column == 1) {
#pragma omp simd
                       for (int64_t c = 0; c < count; ++c) put(row[c], from[c]);
                     } else if (index_column == 0) {
                       for (int64_t c = 0; c < count; ++c) put(row[c * out_column], from[c * src_column]);
                     } else {
                       for (int64_t c = 0; c < count; ++c) {
                         put(to[c * out_column + chosen[c * index_column] * out.strides[dim]], from[c * src_column]);
                       }
                     }
                   }
                 }
               });
}

void scatter_add(View out, View index, View src, int dim) {
  dispatch_number(src.dtype,
                  [&]<class T>(T) { put_in_order<T>(out, index, src, dim, [](T& to, T from) { to += from; }); });
}

void scatter(View out, View index, View src, int dim) {
  dispatch_any(src.dtype,
               [&]<class T>(T) { put_in_order<T>(out, index, src, dim, [](T& to, T from) { to = from; }); });
}

void index_select(View out, View x, View index, int dim) {
  const Strides strides(out.rank, dim, index.strides[0]);
  gather(out, x, {index.data, index.dtype, out.rank, out.shape, strides.of}, dim);
}

void index_add(View out, View index, View src, int dim) {
  const Strides strides(src.rank, dim, index.strides[0]);
  scatter_add(out, {index.data, index.dtype, src.rank, src.shape, strides.of}, src, dim);
}

}  // namespace

void fill_indexing(Backend& table) {
  table.gather = gather;
  table.scatter_add = scatter_add;
  table.scatter = scatter;
  table.index_select = index_select;
  table.index_add = index_add;
}

}  // namespace linnet::cpu::LINNET_ISA
