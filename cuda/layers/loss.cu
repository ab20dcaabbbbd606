#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/math.cuh>

/// Cross-entropy of rows of logits. Forward reads them twice, the second time from the cache. Reading the logits and
/// writing their gradients bounds these kernels.

namespace linnet::cuda {
namespace {

template <class ThreadGroup, class T>
__global__ void losses(int64_t rows, int64_t classes, const T* logits, const int64_t* targets, int64_t ignore_index,
                       double smoothing, T* loss, T* max_and_log_sum) {
  for (int64_t r = ThreadGroup::first_row(); r < rows; r += ThreadGroup::row_step()) {
    const T* x = logits + r * classes;
    T largest = -infinity<T>();
    for (int64_t c = ThreadGroup::lane(); c < classes; c += ThreadGroup::size)
      largest = x[c] > largest ? x[c] : largest;
    largest = ThreadGroup::reduce(largest, Maximum());
    const double total = ThreadGroup::template sum<T>(classes, [=](int64_t c) { return exp(x[c] - largest); });
    // Only with smoothing, because otherwise the weight 0 times a logit of −∞ would be NaN.
    const double sum =
        smoothing == 0 ? 0 : ThreadGroup::template sum<T>(classes, [=](int64_t c) { return x[c] - largest; });
    if (ThreadGroup::lane() != 0) continue;
    const T log_total = static_cast<T>(log(total));
    max_and_log_sum[2 * r] = largest;
    max_and_log_sum[2 * r + 1] = log_total;
    const int64_t target = targets[r];
    if (target == ignore_index) {
      loss[r] = 0;
      continue;
    }
    const T epsilon = static_cast<T>(smoothing);
    T value = log_total - (1 - epsilon) * (x[target] - largest);
    if (smoothing != 0) value -= epsilon * static_cast<T>(sum / static_cast<double>(classes));
    loss[r] = value;
  }
}

template <class ThreadGroup, class T>
__global__ void losses_backward(int64_t rows, int64_t classes, const T* logits, const int64_t* targets,
                                int64_t ignore_index, double smoothing, const T* dloss, const T* max_and_log_sum,
                                T* dlogits) {
  const T epsilon = static_cast<T>(smoothing), uniform = epsilon / static_cast<T>(classes);
  for (int64_t r = ThreadGroup::first_row(); r < rows; r += ThreadGroup::row_step()) {
    const T* x = logits + r * classes;
    T* dx = dlogits + r * classes;
    const int64_t target = targets[r];
    const bool ignored = target == ignore_index;
    const T scale = dloss[r], largest = max_and_log_sum[2 * r], log_total = max_and_log_sum[2 * r + 1];
    for (int64_t c = ThreadGroup::lane(); c < classes; c += ThreadGroup::size) {
      T gradient = scale * (exp((x[c] - largest) - log_total) - uniform);
      if (c == target) gradient -= scale * (1 - epsilon);
      dx[c] = ignored ? T{0} : gradient;
    }
  }
}

void cross_entropy(View loss, View max_and_log_sum, View logits, View targets, int64_t ignore_index,
                   double smoothing) {
  const int64_t rows = logits.shape[0], classes = logits.shape[1];
  dispatch_floating(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_group(classes, [&](auto group) {
      using G = decltype(group);
      launch(losses<G, T>, ceil_div(rows, G::rows), kThreads, rows, classes, data<const T>(logits),
             data<const int64_t>(targets), ignore_index, smoothing, data<T>(loss), data<T>(max_and_log_sum));
    });
  });
}

void cross_entropy_backward(View dlogits, View dloss, View max_and_log_sum, View logits, View targets,
                            int64_t ignore_index, double smoothing) {
  const int64_t rows = logits.shape[0], classes = logits.shape[1];
  dispatch_floating(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    for_group(classes, [&](auto group) {
      using G = decltype(group);
      launch(losses_backward<G, T>, ceil_div(rows, G::rows), kThreads, rows, classes, data<const T>(logits),
             data<const int64_t>(targets), ignore_index, smoothing, data<const T>(dloss),
             data<const T>(max_and_log_sum), data<T>(dlogits));
    });
  });
}

}  // namespace

void fill_loss(Backend& table) {
  table.cross_entropy = cross_entropy;
  table.cross_entropy_backward = cross_entropy_backward;
}

}  // namespace linnet::cuda
