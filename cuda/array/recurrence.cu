#include <cfloat>
#include <cmath>
#include <type_traits>

#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>

namespace linnet::cuda {
namespace {

/// The map h → factor·h + term.
template <class Acc>
struct Linear {
  Acc factor, term;

  __device__ Acc operator()(Acc h) const { return factor * h + term; }
  /// This map after `first`. A term of −0 leaves every number as it is, and is no term here: its product with a
  /// negative factor would be +0, which changes −0.
  __device__ Linear after(const Linear& first) const {
    const Linear both{factor * first.factor, (*this)(first.term)};
    if constexpr (std::is_floating_point_v<Acc>) {
      if (first.term == 0 && copysign(Acc{1}, first.term) < 0) return {both.factor, term};
    }
    return both;
  }
};

/// Whether `product`, the factor of two composed maps, can replace a·(b·h). It cannot if it left the range of normal
/// numbers, because h, b·h and a·b·h may still be inside that range.
template <class Acc>
__device__ bool keeps_range(Acc a, Acc b, Acc product) {
  if constexpr (std::is_floating_point_v<Acc>) {
    if (a == 0 || b == 0) return product == 0;
    return fabs(product) >= DBL_MIN && fabs(product) <= DBL_MAX;
  } else {
    return true;
  }
}

/// Strides of the dim along which lines run.
struct LineSteps {
  int64_t out, a, b;
};

/// A block computes a line, kThreads elements at a time. It is like cumsum.cu, but composes maps instead of adding
/// numbers. In double or int64. Elements whose composed factors leave the range of double are computed one after the
/// other, as on the CPU.
template <class T, class Acc>
__global__ void compose_prefixes(StridedIndex<3> lines, int64_t n, LineSteps step, bool reverse, Acc initial, T* out,
                                 const T* a, const T* b) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ Linear<Acc> of_warp[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
    const Offsets<3> at = lines.at(line);
    Acc before = initial;  // h of the element before `first`
    for (int64_t first = 0; first < n; first += kThreads) {
      const int64_t i = first + threadIdx.x;
      const int64_t place = reverse ? n - 1 - i : i;
      Linear<Acc> linear{Acc{1}, Acc{0}};
      if (i < n) {
        linear.factor = static_cast<Acc>(a[at.of[1] + place * step.a]);
        linear.term = static_cast<Acc>(b[at.of[2] + place * step.b]);
      }
      bool in_range = true;
      for (int distance = 1; distance < kWarp; distance *= 2) {
        const Linear<Acc> left{__shfl_up_sync(kAllLanes, linear.factor, distance),
                               __shfl_up_sync(kAllLanes, linear.term, distance)};
        if (lane >= distance) {
          const Linear<Acc> both = linear.after(left);
          in_range = in_range && keeps_range(linear.factor, left.factor, both.factor);
          linear = both;
        }
      }
      if (lane == kWarp - 1) of_warp[warp] = linear;
      if (__syncthreads_and(in_range)) {
        Acc own = before, h = before;
        for (int w = 0; w < kWarps; ++w) {
          if (w == warp) own = h;
          h = of_warp[w](h);
        }
        if (i < n) out[at.of[0] + place * step.out] = static_cast<T>(linear(own));
        before = h;
      } else {
        if (threadIdx.x == 0) {
          Acc h = before;
          for (int64_t next = first; next < min(first + kThreads, n); ++next) {
            const int64_t there = reverse ? n - 1 - next : next;
            h = static_cast<Acc>(a[at.of[1] + there * step.a]) * h + static_cast<Acc>(b[at.of[2] + there * step.b]);
            out[at.of[0] + there * step.out] = static_cast<T>(h);
          }
          of_warp[0].term = h;
        }
        __syncthreads();
        before = of_warp[0].term;
      }
      __syncthreads();  // before the next elements overwrite of_warp
    }
  }
}

void linear_recurrence(View out, View a, View b, int dim, bool reverse, double initial) {
  const StridedIndex<3> lines = index_other_dims<3>({out, a, b}, dim);
  const LineSteps steps{out.strides[dim], a.strides[dim], b.strides[dim]};
  dispatch_number(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    using Acc = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;
    launch(compose_prefixes<T, Acc>, lines.count, kThreads, lines, out.shape[dim], steps, reverse,
           static_cast<Acc>(initial), data<T>(out), data<const T>(a), data<const T>(b));
  });
}

}  // namespace

void fill_recurrence(Backend& table) { table.linear_recurrence = linear_recurrence; }

}  // namespace linnet::cuda
