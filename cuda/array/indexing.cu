#include <linnet/cuda/array/radix_sort.cuh>
#include <linnet/cuda/device/bfloat16.cuh>

/// Reading, adding and writing at indices. Elements to be added or written are first sorted by target, stably. Then
/// one thread adds all elements of a target in the order of the CPU's kernel, or writes the last one. So the result
/// is bit-identical to the CPU's, without atomics. Rows that share an index, as those of an expanded one, are sorted
/// once. Memory bounds reading. The sort and the longest run of equal indices bound adding.

namespace linnet::cuda {
namespace {

/// Strides of all dims, of which one is replaced. The others are 0, or the strides of a view.
struct Strides {
  int64_t of[64];

  Strides(int rank, int dim, int64_t stride) {
    for (int d = 0; d < rank; ++d) of[d] = d == dim ? stride : 0;
  }
  Strides(const View& view, int dim, int64_t stride) {
    for (int d = 0; d < view.rank; ++d) of[d] = d == dim ? stride : view.strides[d];
  }
};

/// out = x at the indices. `elements` has the offsets in out, in x with index 0, and in the index.
template <class T>
__global__ void take(StridedIndex<3> elements, int64_t x_step, T* out, const T* x, const int64_t* index) {
  for (int64_t i = first_item(); i < elements.count; i += item_step()) {
    const Offsets<3> at = elements.at(i);
    out[at.of[0]] = x[at.of[1] + index[at.of[2]] * x_step];
  }
}

void gather(View out, View x, View index, int dim) {
  const Strides start(x, dim, 0);
  const View from{x.data, x.dtype, x.rank, out.shape, start.of};
  const StridedIndex<3> elements = index_other_dims<3>({out, from, index}, -1);
  dispatch_stored(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(take<T>, blocks_for(elements.count), kThreads, elements, x.strides[dim], data<T>(out), data<const T>(x),
           data<const int64_t>(index));
  });
}

void index_select(View out, View x, View index, int dim) {
  const Strides strides(out.rank, dim, index.strides[0]);
  gather(out, x, {index.data, index.dtype, out.rank, out.shape, strides.of}, dim);
}

// ---- Adding and writing ----

/// Sizes and strides of `dim`.
struct Steps {
  int64_t n;                ///< size in src
  int64_t size;             ///< size in out
  int64_t out, src, index;  ///< strides
};

/// keys[e] = the number of the element of out to which element e % n of line e / n of src goes; values[e] = e.
__global__ void find_targets(StridedIndex<3> lines, Steps steps, const int64_t* index, uint64_t* keys,
                             int64_t* values) {
  for (int64_t e = first_item(); e < lines.count * steps.n; e += item_step()) {
    const int64_t line = e / steps.n, i = e % steps.n;
    const int64_t chosen = index[lines.at(line).of[2] + i * steps.index];
    keys[e] = static_cast<uint64_t>(line * steps.size + chosen);
    values[e] = e;
  }
}

/// The end of the run of sorted keys that equal keys[first]. With the end known, a loop over the run can issue the
/// loads of many elements together, without waiting for each key.
__device__ int64_t end_of_run(const uint64_t* keys, int64_t first, int64_t count) {
  const uint64_t key = keys[first];
  int64_t last = first, step = 1;  // most runs are short: double the step, then bisect
  for (; last + step < count && keys[last + step] == key; step *= 2) last += step;
  int64_t end = min(last + step, count);
  while (end - last > 1) {
    const int64_t middle = last + (end - last) / 2;
    (keys[middle] == key ? last : end) = middle;
  }
  return end;
}

/// Has one thread for each sorted element and column. The thread of a run's first element adds the whole run.
/// Neighbouring threads have neighbouring columns.
template <class T>
__global__ void add_runs(StridedIndex<3> lines, StridedIndex<2> columns, Steps steps, const uint64_t* keys,
                         const int64_t* elements, T* out, const T* src) {
  const int64_t count = lines.count * steps.n;
  for (int64_t task = first_item(); task < count * columns.count; task += item_step()) {
    int64_t first = task;
    const Offsets<2> column = columns.at(take_inner(first, columns.count));
    const uint64_t key = keys[first];
    if (first > 0 && keys[first - 1] == key) continue;
    const int64_t line = divide(elements[first], steps.n), end = end_of_run(keys, first, count);
    const Offsets<3> at = lines.at(line);
    T* target = out + at.of[1] + column.of[1] + (static_cast<int64_t>(key) - line * steps.size) * steps.out;
    const T* from = src + at.of[0] + column.of[0];
    T sum = *target;
#pragma unroll 16
    for (int64_t e = first; e < end; ++e) sum += from[(elements[e] - line * steps.n) * steps.src];
    *target = sum;
  }
}

/// Writes the last element of each run, in each column. The thread of that element writes it.
template <class T>
__global__ void write_runs(StridedIndex<3> lines, StridedIndex<2> columns, Steps steps, const uint64_t* keys,
                           const int64_t* elements, T* out, const T* src) {
  const int64_t count = lines.count * steps.n;
  for (int64_t task = first_item(); task < count * columns.count; task += item_step()) {
    int64_t last = task;
    const Offsets<2> column = columns.at(take_inner(last, columns.count));
    const uint64_t key = keys[last];
    if (last + 1 < count && keys[last + 1] == key) continue;
    const int64_t line = divide(elements[last], steps.n);
    const Offsets<3> at = lines.at(line);
    out[at.of[1] + column.of[1] + (static_cast<int64_t>(key) - line * steps.size) * steps.out] =
        src[at.of[0] + column.of[0] + (elements[last] - line * steps.n) * steps.src];
  }
}

/// Calls `put(lines, columns, steps, pairs)`, where the pairs of targets and elements of src are sorted by target.
/// The dims besides `dim` are divided: `lines` have indices of their own, and all `columns` of a line share its
/// indices.
template <class Put>
void put_sorted(const View& out, const View& index, const View& src, int dim, const Put& put) {
  StridedIndex<3> lines;
  StridedIndex<2> columns;
  for (int d = src.rank - 1; d >= 0; --d) {
    if (d == dim) continue;
    if (index.strides[d] == 0) {
      columns.add(src.shape[d], {src.strides[d], out.strides[d]});
    } else {
      lines.add(src.shape[d], {src.strides[d], out.strides[d], index.strides[d]});
    }
  }
  const Steps steps{src.shape[dim], out.shape[dim], out.strides[dim], src.strides[dim], index.strides[dim]};
  const Pairs pairs(lines.count * steps.n);
  launch(find_targets, blocks_for(pairs.count), kThreads, lines, steps, data<const int64_t>(index), pairs.keys.data(),
         pairs.values.data());
  sort_pairs(pairs, bits_below(lines.count * steps.size));
  put(lines, columns, steps, pairs);
}

void scatter_add(View out, View index, View src, int dim) {
  put_sorted(out, index, src, dim,
             [&](const auto& lines, const auto& columns, const Steps& steps, const Pairs& pairs) {
               dispatch_number(src.dtype, [&](auto zero) {
                 using T = decltype(zero);
                 launch(add_runs<T>, blocks_for(pairs.count * columns.count), kThreads, lines, columns, steps,
                        pairs.sorted_keys.data(), pairs.sorted_values.data(), data<T>(out), data<const T>(src));
               });
             });
}

void scatter(View out, View index, View src, int dim) {
  put_sorted(out, index, src, dim,
             [&](const auto& lines, const auto& columns, const Steps& steps, const Pairs& pairs) {
               dispatch_stored(src.dtype, [&](auto zero) {
                 using T = decltype(zero);
                 launch(write_runs<T>, blocks_for(pairs.count * columns.count), kThreads, lines, columns, steps,
                        pairs.sorted_keys.data(), pairs.sorted_values.data(), data<T>(out), data<const T>(src));
               });
             });
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

}  // namespace linnet::cuda
