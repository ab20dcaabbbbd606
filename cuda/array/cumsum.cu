#include <type_traits>

#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>

namespace linnet::cuda {
namespace {

/// Prefix sums, with a block for each line, kThreads elements at a time. Sums are in double or int64, as in `reduce`.
template <class Y, class Acc, class X>
__global__ void sum_prefixes(StridedIndex<2> lines, int64_t n, int64_t y_step, int64_t x_step, bool reverse, Y* out,
                             const X* in) {
  constexpr int kWarps = kThreads / kWarp;
  __shared__ Acc of_warp[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int64_t line = blockIdx.x; line < lines.count; line += gridDim.x) {
    const Offsets<2> at = lines.at(line);
    Acc before = 0;  // the sum of all elements before `first`
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
      __syncthreads();  // before the next elements overwrite of_warp
    }
  }
}

void cumsum(View out, View x, int dim, bool reverse) {
  const StridedIndex<2> lines = index_other_dims<2>({out, x}, dim);
  dispatch_any(x.dtype, [&](auto zero) {
    using X = decltype(zero);
    using Y = std::conditional_t<std::is_floating_point_v<X>, X, int64_t>;
    using Acc = std::conditional_t<std::is_floating_point_v<X>, double, int64_t>;
    launch(sum_prefixes<Y, Acc, X>, lines.count, kThreads, lines, x.shape[dim], out.strides[dim], x.strides[dim],
           reverse, data<Y>(out), data<const X>(x));
  });
}

}  // namespace

void fill_cumsum(Backend& table) { table.cumsum = cumsum; }

}  // namespace linnet::cuda
