#include <limits>

#include <linnet/cuda/device/kernel.cuh>

/// Max pooling, with a thread for each window. Memory bounds it.

namespace linnet::cuda {
namespace {

template <class T>
__global__ void pool(Pool2dParams p, int64_t count, int64_t out_height, int64_t out_width, int64_t height,
                     int64_t width, const T* x, T* y, int64_t* places) {
  for (int64_t item = first_item(); item < count; item += item_step()) {
    int64_t number = item;  // of the plane
    const int64_t j = take_inner(number, out_width), i = take_inner(number, out_height);
    const T* plane = x + number * height * width;
    T best = -std::numeric_limits<T>::infinity();
    int64_t at = -1;
    for (int64_t r = 0; r < p.kernel[0]; ++r) {
      const int64_t row = i * p.stride[0] + r * p.dilation[0] - p.padding[0];
      if (row < 0 || row >= height) continue;
      for (int64_t s = 0; s < p.kernel[1]; ++s) {
        const int64_t column = j * p.stride[1] + s * p.dilation[1] - p.padding[1];
        if (column < 0 || column >= width) continue;
        const T value = plane[row * width + column];
        if (value > best || at < 0 || (value != value && best == best)) {
          best = value;
          at = row * width + column;
        }
      }
    }
    y[item] = best;
    places[item] = at;
  }
}

void max_pool2d(View y, View indices, View x, const Pool2dParams& params) {
  dispatch_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t count = numel(y);
    launch(pool<T>, blocks_for(count), kThreads, params, count, y.shape[2], y.shape[3], x.shape[2], x.shape[3],
           data<const T>(x), data<T>(y), data<int64_t>(indices));
  });
}

}  // namespace

void fill_pooling(Backend& table) { table.max_pool2d = max_pool2d; }

}  // namespace linnet::cuda
