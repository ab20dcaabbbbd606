#include <cmath>

#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/math.cuh>

/// Softmax along rows, with a thread group for each row.

namespace linnet::cuda {
namespace {

/// Each thread reads and writes the same elements in all passes, so that later passes find them in the cache.
template <class ThreadGroup, class T>
__global__ void softmax_rows(StridedIndex<2> lines, int64_t n, int64_t step, bool log_of, T* out, const T* in) {
  for (int64_t line = ThreadGroup::first_row(); line < lines.count; line += ThreadGroup::row_step()) {
    const Offsets<2> at = lines.at(line);
    T* y = out + at.of[0];
    const T* x = in + at.of[1];
    T largest = -infinity<T>();
    for (int64_t i = ThreadGroup::lane(); i < n; i += ThreadGroup::size) largest = Maximum()(largest, x[i * step]);
    largest = ThreadGroup::reduce(largest, Maximum());
    if (largest == -infinity<T>()) {  // the same for all threads of the group
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
  const StridedIndex<2> lines = index_other_dims<2>({out, x}, dim);
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

void fill_softmax(Backend& table) { table.softmax = softmax; }

}  // namespace linnet::cuda
