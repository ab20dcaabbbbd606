#include <cmath>
#include <limits>

#include <linnet/ops/cpu/device/block_sum.h>
#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/vector_math.h>

/// Cross-entropy of rows of logits, forward and backward. Bound by its exponentials. A pass reads each row from
/// memory once, and softmax is never stored: backward computes it again from the logarithms of the sums.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Rows per task: an exponential costs about as much as ten additions.
int64_t rows_per_task(int64_t classes) {
  const int64_t rows = kGrain / 10 / (classes > 0 ? classes : 1);
  return rows > 0 ? rows : 1;
}

template <class T>
void losses(const View& loss, const View& max_and_log_sum, const View& logits, const View& targets,
            int64_t ignore_index, double smoothing) {
  const int64_t rows = logits.shape[0], classes = logits.shape[1];
  parallel_for(rows, rows_per_task(classes), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* x = data<T>(logits) + r * classes;
      T maximum = -std::numeric_limits<T>::infinity();
#pragma omp simd reduction(max : maximum)
      for (int64_t c = 0; c < classes; ++c) maximum = x[c] > maximum ? x[c] : maximum;
      const double total = block_sum<T>(classes, [x, maximum](int64_t c) { return vec::exp(x[c] - maximum); });
      const T log_total = static_cast<T>(std::log(total));
      data<T>(max_and_log_sum)[2 * r] = maximum;
      data<T>(max_and_log_sum)[2 * r + 1] = log_total;
      const int64_t target = data<int64_t>(targets)[r];
      if (target == ignore_index) {
        data<T>(loss)[r] = 0;
        continue;
      }
      const T epsilon = static_cast<T>(smoothing);
      T value = log_total - (1 - epsilon) * (x[target] - maximum);
      // Skipped without smoothing: a logit of −∞ would make 0 · −∞ = NaN.
      if (epsilon != 0) {
        const double sum = block_sum<T>(classes, [x, maximum](int64_t c) { return x[c] - maximum; });
        value -= epsilon * static_cast<T>(sum / static_cast<double>(classes));
      }
      data<T>(loss)[r] = value;
    }
  });
}

template <class T>
void losses_backward(const View& dlogits, const View& dloss, const View& max_and_log_sum, const View& logits,
                     const View& targets, int64_t ignore_index, double smoothing) {
  const int64_t rows = logits.shape[0], classes = logits.shape[1];
  parallel_for(rows, rows_per_task(classes), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* x = data<T>(logits) + r * classes;
      T* dx = data<T>(dlogits) + r * classes;
      const int64_t target = data<int64_t>(targets)[r];
      if (target == ignore_index) {
        for (int64_t c = 0; c < classes; ++c) dx[c] = 0;
        continue;
      }
      const T scale = data<T>(dloss)[r], maximum = data<T>(max_and_log_sum)[2 * r],
              log_total = data<T>(max_and_log_sum)[2 * r + 1];
      const T epsilon = static_cast<T>(smoothing), uniform = epsilon / static_cast<T>(classes);
#pragma omp simd
      for (int64_t c = 0; c < classes; ++c) dx[c] = scale * (vec::exp((x[c] - maximum) - log_total) - uniform);
      dx[target] -= scale * (1 - epsilon);
    }
  });
}

void cross_entropy(View loss, View max_and_log_sum, View logits, View targets, int64_t ignore_index,
                   double smoothing) {
  dispatch_floating(logits.dtype,
                    [&]<class T>(T) { losses<T>(loss, max_and_log_sum, logits, targets, ignore_index, smoothing); });
}

void cross_entropy_backward(View dlogits, View dloss, View max_and_log_sum, View logits, View targets,
                            int64_t ignore_index, double smoothing) {
  dispatch_floating(logits.dtype, [&]<class T>(T) {
    losses_backward<T>(dlogits, dloss, max_and_log_sum, logits, targets, ignore_index, smoothing);
  });
}

}  // namespace

void fill_loss(Backend& table) {
  table.cross_entropy = cross_entropy;
  table.cross_entropy_backward = cross_entropy_backward;
}

}  // namespace linnet::cpu::LINNET_ISA
