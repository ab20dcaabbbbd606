#include <linnet/core/device/kernel_names.h>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>

/// The indices of extremes along a dim, with a thread group for each line along it. Reading x bounds it.

namespace linnet::cuda {
namespace {

template <class T>
struct Candidate {
  T value;
  int64_t index;
};

template <class T>
__device__ Candidate<T> shuffle(const Candidate<T>& mine, int distance) {
  return {__shfl_xor_sync(kAllLanes, mine.value, distance), __shfl_xor_sync(kAllLanes, mine.index, distance)};
}

/// A NaN beats every number, but not another NaN.
template <class T>
__device__ bool beats(ArgReduce op, T challenger, T best) {
  if (challenger != challenger || best != best) return best == best;
  return op == ArgReduce::max ? challenger > best : challenger < best;
}

/// The extreme of two candidates; of equal ones the first. An index of −1 means no candidate.
template <class T>
struct Best {
  ArgReduce op;

  __device__ Candidate<T> operator()(const Candidate<T>& a, const Candidate<T>& b) const {
    if (a.index < 0) return b;
    if (b.index < 0) return a;
    if (beats(op, a.value, b.value)) return a;
    if (beats(op, b.value, a.value)) return b;
    return a.index < b.index ? a : b;
  }
};

template <class ThreadGroup, class T>
__global__ void find_extremes(StridedIndex<2> lines, ArgReduce op, int64_t n, int64_t step, int64_t* out,
                              const T* x) {
  const Best<T> best{op};
  for (int64_t line = ThreadGroup::first_row(); line < lines.count; line += ThreadGroup::row_step()) {
    const Offsets<2> at = lines.at(line);
    Candidate<T> found{T{}, -1};
    for (int64_t i = ThreadGroup::lane(); i < n; i += ThreadGroup::size)
      found = best(found, {x[at.of[1] + i * step], i});
    found = ThreadGroup::reduce(found, best);
    if (ThreadGroup::lane() == 0) out[at.of[0]] = found.index;
  }
}

void arg_reduce(ArgReduce op, View out, View x, int dim) {
  const StridedIndex<2> lines = index_other_dims<2>({out, x}, dim);
  const int64_t n = x.shape[dim], step = x.strides[dim];
  dispatch_number(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_group(n, [&](auto group) {
      using G = decltype(group);
      launch(find_extremes<G, T>, ceil_div(lines.count, G::rows), kThreads, lines, op, n, step, data<int64_t>(out),
             data<const T>(x));
    });
  });
}

}  // namespace

void fill_arg_reduce(Backend& table) { table.arg_reduce = arg_reduce; }

}  // namespace linnet::cuda
