#include <cmath>

#include <linnet/ops/cpu/array/reduce.h>
#include <linnet/ops/cpu/device/strided_index.h>
#include <linnet/ops/cpu/device/vector_math.h>

/// Softmax along rows. Bound by its exponentials; passes after the first read the row from the cache.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// y[i] = f(x[i])
template <class T, class F>
void map_line(T* y, const T* x, int64_t n, int64_t step, F f) {
  if (step == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) y[i] = f(x[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = f(x[i * step]);
  }
}

void softmax(View out, View x, bool log) {
  const int dim = x.rank - 1;
  const int64_t n = x.shape[dim], step = x.strides[dim];
  constexpr int64_t kCost = 8;  // of one element, in additions
  dispatch_floating(x.dtype, [&]<class T>(T) {
    for_each_line<2>({out, x}, dim, kCost * n, [&](const auto& at) {
      T* y = data<T>(out) + at[0];
      const T* line = data<T>(x) + at[1];
      const T largest = reduce_row<Max<T>>(Max<T>::identity, line, n, step);
      if (largest == Max<T>::identity) {
        for (int64_t i = 0; i < n; ++i) y[i] = log ? largest : T{0};
        return;
      }
      map_line(y, line, n, step, [=](T value) { return vec::exp(value - largest); });
      const double total = reduce_row<Sum<T>>(0.0, y, n, 1);
      if (log) {
        const T log_total = static_cast<T>(std::log(total));
        map_line(y, line, n, step, [=](T value) { return (value - largest) - log_total; });
      } else {
        const T scale = static_cast<T>(1 / total);
        map_line(y, y, n, 1, [=](T value) { return value * scale; });
      }
    });
  });
}

}  // namespace

void fill_softmax(Backend& table) { table.softmax = softmax; }

}  // namespace linnet::cpu::LINNET_ISA
