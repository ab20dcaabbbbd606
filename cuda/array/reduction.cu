#include <limits>

#include <linnet/core/device/kernel_names.h>
#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/scratch.cuh>

/// Reductions of dims. Reading x bounds these kernels.

namespace linnet::cuda {
namespace {

// ---- Operators: `load` turns an element into an accumulator, and () combines two. ----

/// Floating sums are accumulated in double, so that a float32 sum of any length is accurate to its last bits.
template <class X>
struct Sum {
  using Acc = std::conditional_t<std::is_integral_v<X>, int64_t, double>;
  static constexpr Acc identity = 0;
  __device__ static Acc load(X x) { return static_cast<Acc>(x); }
  __device__ Acc operator()(Acc a, Acc b) const { return a + b; }
};

template <class X>
struct SumSquares : Sum<X> {
  __device__ static double load(X x) { return static_cast<double>(x) * static_cast<double>(x); }
};

/// Floating products, like sums, are accumulated in double.
template <class X>
struct Prod : Sum<X> {
  using Acc = typename Sum<X>::Acc;
  static constexpr Acc identity = 1;
  __device__ Acc operator()(Acc a, Acc b) const { return a * b; }
};

template <class X>
struct Max {
  using Acc = X;
  static constexpr X identity =
      std::is_floating_point_v<X> ? -std::numeric_limits<X>::infinity() : std::numeric_limits<X>::lowest();
  __device__ static X load(X x) { return x; }
  __device__ X operator()(X a, X b) const { return b > a || b != b ? b : a; }  // a NaN in a stays: no b is greater
};

template <class X>
struct Min {
  using Acc = X;
  static constexpr X identity =
      std::is_floating_point_v<X> ? std::numeric_limits<X>::infinity() : std::numeric_limits<X>::max();
  __device__ static X load(X x) { return x; }
  __device__ X operator()(X a, X b) const { return b < a || b != b ? b : a; }
};

template <class X>
struct Any {
  using Acc = int32_t;
  static constexpr Acc identity = 0;
  __device__ static Acc load(X x) { return x != X{}; }
  __device__ Acc operator()(Acc a, Acc b) const { return a | b; }
};

template <class X>
struct All {
  using Acc = int32_t;
  static constexpr Acc identity = 1;
  __device__ static Acc load(X x) { return x != X{}; }
  __device__ Acc operator()(Acc a, Acc b) const { return a & b; }
};

// ---- Kernels: they read x in the order of its memory, whatever the order of its dims. ----

/// The dims of x, sorted by stride, and separated into those that out keeps and those that are reduced.
struct ReductionDims {
  StridedIndex<2> kept;     ///< offsets in out and x
  StridedIndex<1> reduced;  ///< offsets in x
  bool columns = false;  ///< neighbouring threads compute neighbouring results, instead of a thread group each result

  ReductionDims(const View& out, const View& x) {
    std::array<int, 64> order;
    int rank = 0;
    for (int d = 0; d < x.rank; ++d) {
      if (x.shape[d] == 1) continue;
      // Dims are sorted by increasing stride; dims of stride 0 are outermost.
      const auto inside = [&](int other) {
        return x.strides[d] != 0 && (x.strides[other] == 0 || x.strides[d] <= x.strides[other]);
      };
      int place = rank++;
      for (; place > 0 && inside(order[place - 1]); --place) order[place] = order[place - 1];
      order[place] = d;
    }
    for (int i = 0; i < rank; ++i) {
      const int d = order[i];
      if (out.shape[d] == 1) {
        reduced.add(x.shape[d], {x.strides[d]});
      } else {
        if (i == 0) columns = true;  // neighbouring results read neighbouring elements
        kept.add(x.shape[d], {out.strides[d], x.strides[d]});
      }
    }
    if (reduced.count < kWarp) columns = true;  // too few elements for the threads of a thread group
  }
};

/// The elements of one result, divided into splits of `length` elements, by sizes alone. There are several splits if
/// there are few results.
struct ReductionSplit {
  int64_t splits = 1, length;

  ReductionSplit(int64_t results, int64_t elements, int64_t least) : length(elements) {
    constexpr int64_t kTasks = 2048, kMaxSplits = 1024;
    const int64_t wanted = std::min({elements / least, kTasks / results, kMaxSplits});
    if (wanted <= 1) return;
    length = ceil_div(elements, wanted);
    splits = ceil_div(elements, length);
  }
};

/// The place for results: out, or with several splits `partial` [results, splits].
template <class F, class Y>
struct Target {
  Y* out;
  typename F::Acc* partial;

  __device__ void store(int64_t offset, int64_t result, int64_t split, int64_t splits, typename F::Acc value) const {
    if (splits == 1) {
      out[offset] = static_cast<Y>(value);
    } else {
      partial[result * splits + split] = value;
    }
  }
};

/// Reduces the elements begin, begin + step, … below end of one result.
template <class F, class X>
__device__ typename F::Acc reduce_every(int64_t step, int64_t begin, int64_t end, const StridedIndex<1>& reduced,
                                        const X* x) {
  typename F::Acc acc = F::identity;
  if (reduced.rank == 1) {  // nearly always; without divisions, loads can be issued together
    const int64_t stride = reduced.stride[0][0];
#pragma unroll 4
    for (int64_t i = begin; i < end; i += step) acc = F()(acc, F::load(x[i * stride]));
  } else {
#pragma unroll 1
    for (int64_t i = begin; i < end; i += step) acc = F()(acc, F::load(x[reduced.at(i).of[0]]));
  }
  return acc;
}

/// A thread group for each split of each result.
template <class F, class ThreadGroup, class Y, class X>
__global__ void reduce_rows(StridedIndex<2> kept, StridedIndex<1> reduced, ReductionSplit split_by, const X* x,
                            Target<F, Y> target) {
  const int64_t tasks = kept.count * split_by.splits;
  for (int64_t task = ThreadGroup::first_row(); task < tasks; task += ThreadGroup::row_step()) {
    const int64_t result = task / split_by.splits, split = task % split_by.splits;
    const Offsets<2> at = kept.at(result);
    const int64_t begin = split * split_by.length, end = min(begin + split_by.length, reduced.count);
    typename F::Acc acc = reduce_every<F>(ThreadGroup::size, begin + ThreadGroup::lane(), end, reduced, x + at.of[1]);
    acc = ThreadGroup::reduce(acc, F());
    if (ThreadGroup::lane() == 0) target.store(at.of[0], result, split, split_by.splits, acc);
  }
}

constexpr int kColumns = 32, kColumnThreads = 8;  // as in layers/row_split.cuh

/// A block for each split of kColumns neighbouring results. Each of a result's kColumnThreads threads takes every
/// kColumnThreads-th element.
template <class F, class Y, class X>
__global__ void reduce_columns(StridedIndex<2> kept, StridedIndex<1> reduced, ReductionSplit split_by, const X* x,
                               Target<F, Y> target) {
  __shared__ typename F::Acc thread_results[kColumnThreads][kColumns];
  const int column = static_cast<int>(threadIdx.x) % kColumns, row_thread = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t tasks = ceil_div(kept.count, kColumns) * split_by.splits;
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const int64_t result = task / split_by.splits * kColumns + column, split = task % split_by.splits;
    const bool exists = result < kept.count;
    const Offsets<2> at = kept.at(exists ? result : 0);
    const int64_t begin = split * split_by.length, end = min(begin + split_by.length, reduced.count);
    typename F::Acc acc = F::identity;
    if (exists) acc = reduce_every<F>(kColumnThreads, begin + row_thread, end, reduced, x + at.of[1]);
    thread_results[row_thread][column] = acc;
    __syncthreads();
    if (row_thread == 0 && exists) {
      for (int s = 1; s < kColumnThreads; ++s) acc = F()(acc, thread_results[s][column]);
      target.store(at.of[0], result, split, split_by.splits, acc);
    }
    __syncthreads();  // before the next task overwrites thread_results
  }
}

/// Combines each result's splits in order, a warp for each result.
template <class F, class Y>
__global__ void reduce_splits(StridedIndex<2> kept, int64_t splits, const typename F::Acc* partial, Y* out) {
  using Warp = ThreadGroup<kWarp>;
  for (int64_t result = Warp::first_row(); result < kept.count; result += Warp::row_step()) {
    typename F::Acc acc = F::identity;
    for (int64_t split = Warp::lane(); split < splits; split += kWarp)
      acc = F()(acc, partial[result * splits + split]);
    acc = Warp::reduce(acc, F());
    if (Warp::lane() == 0) out[kept.at(result).of[0]] = static_cast<Y>(acc);
  }
}

template <class F, class Y, class X>
void reduce_with(const View& out, const View& x) {
  const ReductionDims dims(out, x);
  if (dims.kept.count == 0) return;
  const int64_t results = dims.columns ? ceil_div(dims.kept.count, kColumns) : dims.kept.count;
  const ReductionSplit split_by(results, dims.reduced.count, dims.columns ? 64 : 4096);
  const Scratch<typename F::Acc> partial(split_by.splits == 1 ? 0 : dims.kept.count * split_by.splits);
  const Target<F, Y> target{data<Y>(out), partial.data()};
  if (dims.columns) {
    launch(reduce_columns<F, Y, X>, results * split_by.splits, kColumns * kColumnThreads, dims.kept, dims.reduced,
           split_by, data<const X>(x), target);
  } else {
    for_group(split_by.length, [&](auto group) {
      using G = decltype(group);
      launch(reduce_rows<F, G, Y, X>, ceil_div(results * split_by.splits, G::rows), kThreads, dims.kept, dims.reduced,
             split_by, data<const X>(x), target);
    });
  }
  if (split_by.splits == 1) return;
  launch(reduce_splits<F, Y>, ceil_div(dims.kept.count, ThreadGroup<kWarp>::rows), kThreads, dims.kept,
         split_by.splits, partial.data(), data<Y>(out));
}

void sum_of_bfloat16(const View& out, const View& x) {
  if (out.dtype == DType::float32) return reduce_with<Sum<BFloat16>, float, BFloat16>(out, x);
  reduce_with<Sum<BFloat16>, BFloat16, BFloat16>(out, x);
}

void reduce(Reduce op, View out, View x) {
  switch (op) {
    case Reduce::sum:
      if (x.dtype == DType::bfloat16) return sum_of_bfloat16(out, x);
      return dispatch_any(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        reduce_with<Sum<T>, std::conditional_t<std::is_floating_point_v<T>, T, int64_t>, T>(out, x);
      });
    case Reduce::sum_squares:
      return dispatch_floating(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        reduce_with<SumSquares<T>, double, T>(out, x);
      });
    case Reduce::prod:
      return dispatch_any(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        reduce_with<Prod<T>, std::conditional_t<std::is_floating_point_v<T>, T, int64_t>, T>(out, x);
      });
    case Reduce::max:
      return dispatch_number(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        reduce_with<Max<T>, T, T>(out, x);
      });
    case Reduce::min:
      return dispatch_number(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        reduce_with<Min<T>, T, T>(out, x);
      });
    case Reduce::any:
      return dispatch_any(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        reduce_with<Any<T>, bool, T>(out, x);
      });
    case Reduce::all:
      return dispatch_any(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        reduce_with<All<T>, bool, T>(out, x);
      });
  }
}

}  // namespace

void fill_reduction(Backend& table) { table.reduce = reduce; }

}  // namespace linnet::cuda
