#include <cmath>

#include <linnet/ops/cpu/device/block_sum.h>
#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/large_mean.h>
#include <linnet/ops/cpu/device/scratch.h>

/// Normalisation of rows. Memory-bound for large tensors: a pass reads each row from memory once, and the loops after
/// the first find it in the cache.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// The largest number of splits of the rows. Each has sums of its own.
constexpr int64_t kMaxSplits = 32;

/// Rows of a task; at least 1, also for an empty tensor.
int64_t rows_per_task(int64_t rows, int64_t width) {
  const int64_t splits = rows * width / kFineGrain;
  return splits <= 1 ? rows + 1 : ceil_div(rows, splits);
}

/// A row of factors or offsets: the given one, or `value` everywhere when there is none.
template <class T>
class Affine {
 public:
  Affine(const View* given, T value, int64_t width) : made_(given != nullptr ? 0 : width) {
    if (given != nullptr) {
      row_ = data<T>(*given);
    } else {
      for (int64_t c = 0; c < width; ++c) made_[c] = value;
      row_ = made_.data();
    }
  }
  const T* row() const { return row_; }

 private:
  Scratch<T> made_;
  const T* row_;
};

template <class T>
void layer_norm_rows(const View& y_view, const View& mean, const View& rstd, const View& x_view, const View* weight,
                     const View* bias, double eps) {
  const int64_t rows = x_view.shape[0], width = x_view.shape[1];
  const Affine<T> factors(weight, 1, width), offsets(bias, 0, width);
  parallel_for(rows, rows_per_task(rows, width), [&](int64_t begin, int64_t end) {
    const T* w = factors.row();
    const T* b = offsets.row();
    for (int64_t r = begin; r < end; ++r) {
      const T* x = data<T>(x_view) + r * width;
      T* y = data<T>(y_view) + r * width;
      fetch_ahead(x, width);
      const double n = static_cast<double>(width);
      T mu = static_cast<T>(block_sum<T>(width, [x](int64_t c) { return x[c]; }) / n);
      const auto variance_about = [&](T centre) {
        return block_sum<T>(width, [x, centre](int64_t c) { return (x[c] - centre) * (x[c] - centre); }) / n;
      };
      double variance = variance_about(mu);
      // A small deviation magnifies the rounding error of a large mean, so the mean of the rest is added.
      if (has_large_mean(static_cast<double>(mu), variance)) {
        mu += static_cast<T>(block_sum<T>(width, [x, mu](int64_t c) { return x[c] - mu; }) / n);
        variance = variance_about(mu);
      }
      const T scale = static_cast<T>(1 / std::sqrt(variance + eps + 0 * variance));  // NaN for an infinite one
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) y[c] = (x[c] - mu) * scale * w[c] + b[c];
      data<T>(mean)[r] = mu;
      data<T>(rstd)[r] = scale;
    }
  });
}

template <class T>
void rms_norm_rows(const View& y_view, const View& rstd, const View& x_view, const View* weight, double eps) {
  const int64_t rows = x_view.shape[0], width = x_view.shape[1];
  const Affine<T> factors(weight, 1, width);
  parallel_for(rows, rows_per_task(rows, width), [&](int64_t begin, int64_t end) {
    const T* w = factors.row();
    for (int64_t r = begin; r < end; ++r) {
      const T* x = data<T>(x_view) + r * width;
      T* y = data<T>(y_view) + r * width;
      fetch_ahead(x, width);
      const double square = block_sum<T>(width, [x](int64_t c) { return x[c] * x[c]; }) / static_cast<double>(width);
      const T scale = static_cast<T>(1 / std::sqrt(square + eps));
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) y[c] = x[c] * scale * w[c];
      data<T>(rstd)[r] = scale;
    }
  });
}

/// The backward passes of layer norm and RMSNorm. With x̂ = (x − mean)·rstd (mean 0 for RMSNorm) and g = dy·weight,
/// means taken over the row:
///   dx = rstd · (g − mean(g) − x̂·mean(g·x̂))     (RMSNorm: without mean(g))
///   dweight = sum over rows of dy·x̂,   dbias = sum over rows of dy
template <class T, bool kCentred>
void norm_backward_rows(const View& dx_view, const View* dweight, const View* dbias, const View& dy_view,
                        const View& x_view, const View* mean, const View& rstd, const View* weight) {
  const int64_t rows = x_view.shape[0], width = x_view.shape[1];
  const Affine<T> factors(weight, 1, width);
  const int64_t least = ceil_div(rows, kMaxSplits), wanted = rows_per_task(rows, width);
  const int64_t grain = wanted > least ? wanted : least;
  const int64_t splits = ceil_div(rows, grain);
  Scratch<T> sums(splits * 2 * width);

  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    const T* w = factors.row();
    T* weight_sum = sums.data() + begin / grain * 2 * width;
    T* bias_sum = weight_sum + width;
    for (int64_t c = 0; c < 2 * width; ++c) weight_sum[c] = 0;
    for (int64_t r = begin; r < end; ++r) {
      const T* dy = data<T>(dy_view) + r * width;
      const T* x = data<T>(x_view) + r * width;
      T* dx = data<T>(dx_view) + r * width;
      const T mu = kCentred ? data<T>(*mean)[r] : T{0};
      const T scale = data<T>(rstd)[r];
      T g_sum = 0, gx_sum = 0;
#pragma omp simd reduction(+ : g_sum, gx_sum)
      for (int64_t c = 0; c < width; ++c) {
        const T normalised = (x[c] - mu) * scale;
        const T g = dy[c] * w[c];
        g_sum += g;
        gx_sum += g * normalised;
        weight_sum[c] += dy[c] * normalised;
        bias_sum[c] += dy[c];
      }
      const T g_mean = kCentred ? g_sum / static_cast<T>(width) : T{0};
      const T gx_mean = gx_sum / static_cast<T>(width);
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) {
        dx[c] = scale * (dy[c] * w[c] - g_mean - (x[c] - mu) * scale * gx_mean);
      }
    }
  });

  const auto add_up = [&](const View* total, int64_t offset) {
    if (total == nullptr) return;
    T* out = data<T>(*total);
    for (int64_t c = 0; c < width; ++c) out[c] = 0;
    for (int64_t split = 0; split < splits; ++split) {
      const T* partial = sums.data() + split * 2 * width + offset;
      for (int64_t c = 0; c < width; ++c) out[c] += partial[c];
    }
  };
  add_up(dweight, 0);
  add_up(dbias, width);
}

void layer_norm(View y, View mean, View rstd, View x, const View* weight, const View* bias, double eps) {
  dispatch_floating(x.dtype, [&]<class T>(T) { layer_norm_rows<T>(y, mean, rstd, x, weight, bias, eps); });
}

void layer_norm_backward(View dx, const View* dweight, const View* dbias, View dy, View x, View mean, View rstd,
                         const View* weight) {
  dispatch_floating(x.dtype,
                    [&]<class T>(T) { norm_backward_rows<T, true>(dx, dweight, dbias, dy, x, &mean, rstd, weight); });
}

void rms_norm(View y, View rstd, View x, const View* weight, double eps) {
  dispatch_floating(x.dtype, [&]<class T>(T) { rms_norm_rows<T>(y, rstd, x, weight, eps); });
}

void rms_norm_backward(View dx, const View* dweight, View dy, View x, View rstd, const View* weight) {
  dispatch_floating(
      x.dtype, [&]<class T>(T) { norm_backward_rows<T, false>(dx, dweight, nullptr, dy, x, nullptr, rstd, weight); });
}

}  // namespace

void fill_normalisation(Backend& table) {
  table.layer_norm = layer_norm;
  table.layer_norm_backward = layer_norm_backward;
  table.rms_norm = rms_norm;
  table.rms_norm_backward = rms_norm_backward;
}

}  // namespace linnet::cpu::LINNET_ISA
