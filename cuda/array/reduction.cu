#include <limits>

#include <linnet/core/device/kernel_names.h>
#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/scratch.cuh>

/// Reductions of dims. Reading x bounds these kernels.

namespace linnet::cuda {
namespace {

// ---- What is folded: `load` turns an element into an accumulator, `combine` joins two. ----

/// Floating sums are accumulated in double, so that a float32 sum of any length is good to its last bits.
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

template <class X>
struct Max {
  using Acc = X;
  static constexpr X identity =
      std::is_floating_point_v<X> ? -std::numeric_limits<X>::infinity() : std::numeric_limits<X>::lowest();
  __device__ static X load(X x) { return x; }
  __device__ X operator()(X a, X b) const { return b > a || b != b ? b : a; }  // a NaN a stays, as no b is greater
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

// ---- How: x is walked in the order of its memory, whatever the order of its dims. ----

/// The dims by whether out keeps them.
struct Plan {
  StridedIndex<2> kept;     ///< offsets in out and x
  StridedIndex<1> reduced;  ///< offsets in x
  bool columns = false;     ///< neighbouring results are made side by side, not each by a group of threads

  Plan(const View& out, const View& x) {
    std::array<int, 64> order;
    int rank = 0;
    for (int d = 0; d < x.rank; ++d) {
      if (x.shape[d] == 1) continue;
      // By rising stride; a dim that repeats x (stride 0) outermost.
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
        if (i == 0) columns = true;  // and so their elements are neighbours
        kept.add(x.shape[d], {out.strides[d], x.strides[d]});
      }
    }
    if (reduced.count < kWarp) columns = true;  // too few elements for the threads of a group
  }
};

/// What makes one result is cut into `parts` of `length` elements, by sizes alone, when there are few results.
struct Cut {
  int64_t parts = 1, length;

  Cut(int64_t results, int64_t elements, int64_t least) : length(elements) {
    constexpr int64_t kTasks = 2048, kMaxParts = 1024;
    const int64_t wanted = std::min({elements / least, kTasks / results, kMaxParts});
    if (wanted <= 1) return;
    length = ceil_div(elements, wanted);
    parts = ceil_div(elements, length);
  }
};

/// Where results go: to out, or when there are several parts to `partial`, [results, parts].
template <class F, class Y>
struct Target {
  Y* out;
  typename F::Acc* partial;

  __device__ void store(int64_t offset, int64_t result, int64_t part, int64_t parts, typename F::Acc value) const {
    if (parts == 1) {
      out[offset] = static_cast<Y>(value);
    } else {
      partial[result * parts + part] = value;
    }
  }
};

/// Folds elements begin, begin + step, … below end of those that x walks over.
template <class F, class X>
__device__ typename F::Acc fold_every(int64_t step, int64_t begin, int64_t end, const StridedIndex<1>& reduced,
                                      const X* x) {
  typename F::Acc acc = F::identity;
  if (reduced.rank == 1) {  // nearly always: no divisions, and loads that do not wait for each other
    const int64_t stride = reduced.stride[0][0];
#pragma unroll 4
    for (int64_t i = begin; i < end; i += step) acc = F()(acc, F::load(x[i * stride]));
  } else {
#pragma unroll 1
    for (int64_t i = begin; i < end; i += step) acc = F()(acc, F::load(x[reduced.at(i).of[0]]));
  }
  return acc;
}

/// A group of threads for each part of each result.
template <class F, class ThreadGroup, class Y, class X>
__global__ void reduce_rows(StridedIndex<2> kept, StridedIndex<1> reduced, Cut cut, const X* x, Target<F, Y> target) {
  const int64_t tasks = kept.count * cut.parts;
  for (int64_t task = ThreadGroup::first_row(); task < tasks; task += ThreadGroup::row_step()) {
    const int64_t result = task / cut.parts, part = task % cut.parts;
    const Offsets<2> at = kept.at(result);
    const int64_t begin = part * cut.length, end = min(begin + cut.length, reduced.count);
    typename F::Acc acc = fold_every<F>(ThreadGroup::size, begin + ThreadGroup::lane(), end, reduced, x + at.of[1]);
    acc = ThreadGroup::reduce(acc, F());
    if (ThreadGroup::lane() == 0) target.store(at.of[0], result, part, cut.parts, acc);
  }
}

constexpr int kColumns = 32, kSlices = 8;

/// A block for each part of kColumns neighbouring results: every kSlices-th element to each of kSlices threads.
template <class F, class Y, class X>
__global__ void reduce_columns(StridedIndex<2> kept, StridedIndex<1> reduced, Cut cut, const X* x,
                               Target<F, Y> target) {
  __shared__ typename F::Acc slices[kSlices][kColumns];
  const int column = static_cast<int>(threadIdx.x) % kColumns, slice = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t tasks = ceil_div(kept.count, kColumns) * cut.parts;
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    const int64_t result = task / cut.parts * kColumns + column, part = task % cut.parts;
    const bool there = result < kept.count;
    const Offsets<2> at = kept.at(there ? result : 0);
    const int64_t begin = part * cut.length, end = min(begin + cut.length, reduced.count);
    typename F::Acc acc = F::identity;
    if (there) acc = fold_every<F>(kSlices, begin + slice, end, reduced, x + at.of[1]);
    slices[slice][column] = acc;
    __syncthreads();
    if (slice == 0 && there) {
      for (int s = 1; s < kSlices; ++s) acc = F()(acc, slices[s][column]);
      target.store(at.of[0], result, part, cut.parts, acc);
    }
    __syncthreads();  // before the next task writes there
  }
}

/// A warp for each result joins its parts.
template <class F, class Y>
__global__ void reduce_parts(StridedIndex<2> kept, int64_t parts, const typename F::Acc* partial, Y* out) {
  using Warp = ThreadGroup<kWarp>;
  for (int64_t result = Warp::first_row(); result < kept.count; result += Warp::row_step()) {
    typename F::Acc acc = F::identity;
    for (int64_t part = Warp::lane(); part < parts; part += kWarp) acc = F()(acc, partial[result * parts + part]);
    acc = Warp::reduce(acc, F());
    if (Warp::lane() == 0) out[kept.at(result).of[0]] = static_cast<Y>(acc);
  }
}

template <class F, class Y, class X>
void reduce_with(const View& out, const View& x) {
  const Plan plan(out, x);
  if (plan.kept.count == 0) return;
  const int64_t results = plan.columns ? ceil_div(plan.kept.count, kColumns) : plan.kept.count;
  const Cut cut(results, plan.reduced.count, plan.columns ? 64 : 4096);
  const Scratch<typename F::Acc> partial(cut.parts == 1 ? 0 : plan.kept.count * cut.parts);
  const Target<F, Y> target{data<Y>(out), partial.data()};
  if (plan.columns) {
    launch(reduce_columns<F, Y, X>, results * cut.parts, kColumns * kSlices, plan.kept, plan.reduced, cut,
           data<const X>(x), target);
  } else {
    for_group(cut.length, [&](auto group) {
      using G = decltype(group);
      launch(reduce_rows<F, G, Y, X>, ceil_div(results * cut.parts, G::rows), kThreads, plan.kept, plan.reduced, cut,
             data<const X>(x), target);
    });
  }
  if (cut.parts == 1) return;
  launch(reduce_parts<F, Y>, ceil_div(plan.kept.count, ThreadGroup<kWarp>::rows), kThreads, plan.kept, cut.parts,
         partial.data(), data<Y>(out));
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
