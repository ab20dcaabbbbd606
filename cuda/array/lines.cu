#include <cmath>

#include <linnet/core/device/kernel_names.h>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/math.cuh>

/// What goes along a dim like a reduction: arg_reduce, cumsum and softmax (with the reductions in
/// ops/cpu/array/reduce.cpp). A group of threads handles a line. Reading x bounds these kernels.

namespace linnet::cuda {
namespace {

// ---- The place of the extreme ----

template <class T>
struct Candidate {
  T value;
  int64_t index;
};

template <class T>
__device__ Candidate<T> shuffle(const Candidate<T>& mine, int distance) {
  return {__shfl_xor_sync(kAllLanes, mine.value, distance), __shfl_xor_sync(kAllLanes, mine.index, distance)};
}

/// A NaN beats all but another.
template <class T>
__device__ bool beats(ArgReduce op, T challenger, T best) {
  if (challenger != challenger || best != best) return best == best;
  return op == ArgReduce::max ? challenger > best : challenger < best;
}

/// The extreme of two candidates; the first of equal ones. An index of −1 stands for no candidate.
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
  const StridedIndex<2> lines = walk_without<2>({out, x}, dim);
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

// ---- Prefix sums ----

/// A block for each line, kThreads elements at a time. Sums are in double, or int64, like those of `reduce`.
template <class Y, class Acc, class X>
__global__ void sum_prefixes(StridedIndex<2> lines, int64_t n, int64_t y_step, int64_t x_step, bool reverse, Y* out,
                             const X* in) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ Acc of_warp[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
    const Offsets<2> at = lines.at(line);
    Acc before = 0;  // the sum of all earlier stretches
    for (int64_t first = 0; first < n; first += kThreads) {
      const int64_t i = first + threadIdx.x;
      const int64_t place = reverse ? n - 1 - i : i;
      Acc sum = i < n ? static_cast<Acc>(in[at.of[1] + place * x_step]) : Acc{0};
      for (int distance = 1; distance < kWarp; distance *= 2) {
        const Acc left = __shfl_up_sync(kAllLanes, sum, distance);
        if (lane >= distance) sum += left;
      }
      if (lane == kWarp - 1) of_warp[warp] = sum;
      __syncthreads();
      Acc total = before;
      for (int w = 0; w < kWarps; ++w) {
        if (w == warp) sum += total;
        total += of_warp[w];
      }
      if (i < n) out[at.of[0] + place * y_step] = static_cast<Y>(sum);
      before = total;
      __syncthreads();  // before the next stretch writes to of_warp
    }
  }
}

void cumsum(View out, View x, int dim, bool reverse) {
  const StridedIndex<2> lines = walk_without<2>({out, x}, dim);
  dispatch_any(x.dtype, [&](auto zero) {
    using X = decltype(zero);
    using Y = std::conditional_t<std::is_floating_point_v<X>, X, int64_t>;
    using Acc = std::conditional_t<std::is_floating_point_v<X>, double, int64_t>;
    launch(sum_prefixes<Y, Acc, X>, lines.count, kThreads, lines, x.shape[dim], out.strides[dim], x.strides[dim],
           reverse, data<Y>(out), data<const X>(x));
  });
}

// ---- Softmax ----

/// Each thread reads and writes the same elements in all passes; after the first they are in the cache.
template <class ThreadGroup, class T>
__global__ void softmax_rows(StridedIndex<2> lines, int64_t n, int64_t step, bool log_of, T* out, const T* in) {
  for (int64_t line = ThreadGroup::first_row(); line < lines.count; line += ThreadGroup::row_step()) {
    const Offsets<2> at = lines.at(line);
    T* y = out + at.of[0];
    const T* x = in + at.of[1];
    T largest = -infinity<T>();
    for (int64_t i = ThreadGroup::lane(); i < n; i += ThreadGroup::size) largest = Maximum()(largest, x[i * step]);
    largest = ThreadGroup::reduce(largest, Maximum());
    if (largest == -infinity<T>()) {  // all of the group agree
      for (int64_t i = ThreadGroup::lane(); i < n; i += ThreadGroup::size) y[i] = log_of ? largest : T{0};
      continue;
    }
    const double total = ThreadGroup::template sum<T>(n, [=](int64_t i) {
      const T weight = exp(x[i * step] - largest);
      if (!log_of) y[i] = weight;
      return weight;
    });
    if (log_of) {
      const T log_total = static_cast<T>(log(total));
      for (int64_t i = ThreadGroup::lane(); i < n; i += ThreadGroup::size) y[i] = (x[i * step] - largest) - log_total;
    } else {
      const T scale = static_cast<T>(1 / total);
      for (int64_t i = ThreadGroup::lane(); i < n; i += ThreadGroup::size) y[i] *= scale;
    }
  }
}

void softmax(View out, View x, bool log_of) {
  const int dim = x.rank - 1;
  const StridedIndex<2> lines = walk_without<2>({out, x}, dim);
  const int64_t n = x.shape[dim], step = x.strides[dim];
  dispatch_floating(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_group(n, [&](auto group) {
      using G = decltype(group);
      launch(softmax_rows<G, T>, ceil_div(lines.count, G::rows), kThreads, lines, n, step, log_of, data<T>(out),
             data<const T>(x));
    });
  });
}

}  // namespace

void fill_lines(Backend& table) {
  table.arg_reduce = arg_reduce;
  table.cumsum = cumsum;
  table.softmax = softmax;
}

}  // namespace linnet::cuda
