#include <algorithm>
#include <limits>

#include <linnet/ops/cpu/device/kernel.h>

/// Max pooling. A row of the result takes one tap after the other along the whole row, which the compiler vectorises.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// The row of windows `i` of a plane x [height, width]: the largest numbers to y, their places to `places`.
template <class T>
void pool_row(const Pool2dParams& p, int64_t i, int64_t height, int64_t width, int64_t windows, const T* x, T* y,
              int64_t* places) {
  std::fill_n(y, windows, -std::numeric_limits<T>::infinity());
  std::fill_n(places, windows, int64_t{-1});
  const int64_t stride = p.stride[1];
  for (int64_t r = 0; r < p.kernel[0]; ++r) {
    const int64_t row = i * p.stride[0] + r * p.dilation[0] - p.padding[0];
    if (row < 0 || row >= height) continue;
    for (int64_t s = 0; s < p.kernel[1]; ++s) {
      const int64_t from = s * p.dilation[1] - p.padding[1];  // the column that window 0 sees
      const int64_t first = from < 0 ? ceil_div(-from, stride) : 0;
      const int64_t last = from < width ? std::min(windows, (width - 1 - from) / stride + 1) : 0;
      for (int64_t j = first; j < last; ++j) {
        const int64_t place = row * width + j * stride + from;
        const T value = x[place];
        const bool larger = value > y[j] || places[j] < 0 || (value != value && y[j] == y[j]);
        y[j] = larger ? value : y[j];
        places[j] = larger ? place : places[j];
      }
    }
  }
}

void max_pool2d(View y, View indices, View x, const Pool2dParams& params) {
  const int64_t planes = x.shape[0] * x.shape[1], height = x.shape[2], width = x.shape[3];
  const int64_t rows = y.shape[2], windows = y.shape[3];
  const int64_t work = windows * params.kernel[0] * params.kernel[1];
  dispatch_floating(y.dtype, [&]<class T>(T) {
    parallel_for(planes * rows, std::max<int64_t>(1, kFineGrain / work), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) {
        pool_row<T>(params, line % rows, height, width, windows, data<T>(x) + line / rows * height * width,
                    data<T>(y) + line * windows, data<int64_t>(indices) + line * windows);
      }
    });
  });
}

}  // namespace

void fill_pooling(Backend& table) { table.max_pool2d = max_pool2d; }

}  // namespace linnet::cpu::LINNET_ISA
