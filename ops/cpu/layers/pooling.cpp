#include <algorithm>
#include <limits>
#include <type_traits>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>

/// Max pooling. A row of the result takes one tap after the other along the whole row, which the compiler vectorises.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// The number of a tap, as wide as a T, so that both fill vectors of the same length.
template <class T>
using TapOf = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

/// A plane of the input and its windows.
struct PooledPlane {
  Pool2dParams params;
  int64_t height, width, windows;

  int64_t row(int64_t i, int64_t tap) const {
    return i * params.stride[0] + tap / params.kernel[1] * params.dilation[0] - params.padding[0];
  }
  int64_t column(int64_t j, int64_t tap) const {
    return j * params.stride[1] + tap % params.kernel[1] * params.dilation[1] - params.padding[1];
  }
  bool has_row(int64_t r) const { return r >= 0 && r < height; }
};

/// Updates the largest number so far of each window of a row, and its tap, by the numbers that one tap sees: x[0],
/// x[stride], … for the windows from `first` on. The loop is vectorised if the stride is a constant.
template <class T, class Stride>
void take_larger(TapOf<T> tap, int64_t first, int64_t last, const T* x, Stride stride, T* y, TapOf<T>* best) {
#pragma omp simd
  for (int64_t j = first; j < last; ++j) {
    const T value = x[j * stride];
    const bool larger = value > y[j] || (value != value && y[j] == y[j]);
    y[j] = larger ? value : y[j];
    best[j] = larger ? tap : best[j];
  }
}

/// Row `i` of the windows of a plane x: writes the largest numbers to y and their places to `places`. `best` holds
/// the tap of the largest number of each window, and `seen` the place that each tap of window 0 sees.
template <class T>
void pool_row(const PooledPlane& s, int64_t i, const T* x, T* y, int64_t* places, TapOf<T>* best, int64_t* seen) {
  std::fill_n(y, s.windows, -std::numeric_limits<T>::infinity());
  std::fill_n(best, s.windows, TapOf<T>{-1});
  const int64_t stride = s.params.stride[1];
  const auto taps = static_cast<TapOf<T>>(s.params.kernel[0] * s.params.kernel[1]);
  for (TapOf<T> tap = 0; tap < taps; ++tap) {
    const int64_t row = s.row(i, tap), from = s.column(0, tap);
    seen[tap] = row * s.width + from;
    if (!s.has_row(row)) continue;
    const int64_t first = from < 0 ? ceil_div(-from, stride) : 0;
    const int64_t last = from < s.width ? std::min(s.windows, (s.width - 1 - from) / stride + 1) : 0;
    if (stride == 1) {
      take_larger(tap, first, last, x + seen[tap], std::integral_constant<int64_t, 1>{}, y, best);
    } else if (stride == 2) {
      take_larger(tap, first, last, x + seen[tap], std::integral_constant<int64_t, 2>{}, y, best);
    } else {
      take_larger(tap, first, last, x + seen[tap], stride, y, best);
    }
  }
  for (int64_t j = 0; j < s.windows; ++j) {
    TapOf<T> tap = best[j];
    if (tap < 0) {  // all are −∞: takes the first tap that is not padding
      tap = 0;
      while (!s.has_row(s.row(i, tap)) || s.column(j, tap) < 0 || s.column(j, tap) >= s.width) ++tap;
    }
    places[j] = seen[tap] + j * stride;
  }
}

void max_pool2d(View y, View indices, View x, const Pool2dParams& params) {
  const int64_t planes = x.shape[0] * x.shape[1], rows = y.shape[2];
  const PooledPlane plane{params, x.shape[2], x.shape[3], y.shape[3]};
  const int64_t work = plane.windows * params.kernel[0] * params.kernel[1];
  dispatch_floating(y.dtype, [&]<class T>(T) {
    parallel_for(planes * rows, std::max<int64_t>(1, kFineGrain / work), [&](int64_t begin, int64_t end) {
      const Scratch<TapOf<T>> best(plane.windows);
      const Scratch<int64_t> seen(params.kernel[0] * params.kernel[1]);
      for (int64_t line = begin; line < end; ++line) {
        pool_row<T>(plane, line % rows, data<T>(x) + line / rows * plane.height * plane.width,
                    data<T>(y) + line * plane.windows, data<int64_t>(indices) + line * plane.windows, best.data(),
                    seen.data());
      }
    });
  });
}

}  // namespace

void fill_pooling(Backend& table) { table.max_pool2d = max_pool2d; }

}  // namespace linnet::cpu::LINNET_ISA
