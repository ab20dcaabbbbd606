#include <algorithm>

#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/math.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/layers/row_split.cuh>

/// Normalisation of rows. Memory bounds these kernels: each reads a row once from memory, and again from the cache.
/// The sums over rows read the operands a second time. Elements have type E. Computation, statistics, weights and
/// biases have type T: float for bfloat16, otherwise E.

namespace linnet::cuda {
namespace {

/// A row of elements, as T.
template <class E, class T>
struct Row {
  const E* data;

  __device__ T operator[](int64_t c) const { return static_cast<T>(data[c]); }
};

/// A row of weights or biases; `value` everywhere if `row` is null.
template <class T>
struct Affine {
  const T* row;
  T value;

  __device__ T operator[](int64_t c) const { return row == nullptr ? value : row[c]; }
};

template <class ThreadGroup, class E, class T>
__global__ void layer_norm_rows(int64_t rows, int64_t width, const E* in, Affine<T> w, Affine<T> b, double eps,
                                E* out, T* mean, T* rstd) {
  const double share = 1 / static_cast<double>(width);
  for (int64_t r = ThreadGroup::first_row(); r < rows; r += ThreadGroup::row_step()) {
    const Row<E, T> x{in + r * width};
    E* y = out + r * width;
    T mu = static_cast<T>(ThreadGroup::template sum<T>(width, [=](int64_t c) { return x[c]; }) * share);
    const auto variance_about = [=](T centre) {
      return ThreadGroup::template sum<T>(width, [=](int64_t c) { return (x[c] - centre) * (x[c] - centre); }) *
             share;
    };
    double variance = variance_about(mu);
    if (has_large_mean(static_cast<double>(mu), variance)) {
      mu += static_cast<T>(ThreadGroup::template sum<T>(width, [=](int64_t c) { return x[c] - mu; }) * share);
      variance = variance_about(mu);
    }
    const T scale = rsqrt(static_cast<T>(variance + eps + 0 * variance));  // NaN for an infinite one
    for (int64_t c = ThreadGroup::lane(); c < width; c += ThreadGroup::size) y[c] = (x[c] - mu) * scale * w[c] + b[c];
    if (ThreadGroup::lane() == 0) {
      mean[r] = mu;
      rstd[r] = scale;
    }
  }
}

template <class ThreadGroup, class E, class T>
__global__ void rms_norm_rows(int64_t rows, int64_t width, const E* in, Affine<T> w, double eps, E* out, T* rstd) {
  const double share = 1 / static_cast<double>(width);
  for (int64_t r = ThreadGroup::first_row(); r < rows; r += ThreadGroup::row_step()) {
    const Row<E, T> x{in + r * width};
    E* y = out + r * width;
    const double squares = ThreadGroup::template sum<T>(width, [=](int64_t c) { return x[c] * x[c]; });
    const T scale = rsqrt(static_cast<T>(squares * share + eps));
    for (int64_t c = ThreadGroup::lane(); c < width; c += ThreadGroup::size) y[c] = x[c] * scale * w[c];
    if (ThreadGroup::lane() == 0) rstd[r] = scale;
  }
}

/// The gradient of both norms by x. With x̂ = (x − mean)·rstd (the mean is 0 for RMSNorm), g = dy·weight, and means
/// over the row:
///   dx = rstd · (g − mean(g) − x̂·mean(g·x̂))     (RMSNorm: without mean(g))
template <class ThreadGroup, class E, class T>
__global__ void norm_backward_rows(int64_t rows, int64_t width, const E* dy_rows, const E* x_rows, const T* mean,
                                   const T* rstd, Affine<T> w, E* dx_rows) {
  const double share = 1 / static_cast<double>(width);
  for (int64_t r = ThreadGroup::first_row(); r < rows; r += ThreadGroup::row_step()) {
    const Row<E, T> dy{dy_rows + r * width}, x{x_rows + r * width};
    E* dx = dx_rows + r * width;
    const T mu = mean == nullptr ? T{0} : mean[r], scale = rstd[r];
    const double g_sum =
        mean == nullptr ? 0 : ThreadGroup::template sum<T>(width, [=](int64_t c) { return dy[c] * w[c]; });
    const double gx_sum =
        ThreadGroup::template sum<T>(width, [=](int64_t c) { return dy[c] * w[c] * ((x[c] - mu) * scale); });
    const T g_mean = static_cast<T>(g_sum * share), gx_mean = static_cast<T>(gx_sum * share);
    for (int64_t c = ThreadGroup::lane(); c < width; c += ThreadGroup::size) {
      dx[c] = scale * (dy[c] * w[c] - g_mean - (x[c] - mu) * scale * gx_mean);
    }
  }
}

/// Sums over one split of the rows, for kColumns columns in a block, in a fixed order:
///   sums[split, 0] = Σ dy·x̂ (the gradient of weight),   sums[split, 1] = Σ dy (the gradient of bias)
template <class E, class T>
__global__ void sum_rows(int64_t rows, int64_t width, int64_t splits, int64_t length, Row<E, T> dy, Row<E, T> x,
                         const T* mean, const T* rstd, double* sums) {
  __shared__ double thread_sums[2][kColumnThreads][kColumns];
  const int column = static_cast<int>(threadIdx.x) % kColumns, row_thread = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t blocks = ceil_div(width, kColumns);
  for (int64_t task = blockIdx.x; task < blocks * splits; task += gridDim.x) {
    const int64_t split = task / blocks, c = task % blocks * kColumns + column;
    const int64_t end = min((split + 1) * length, rows);
    T weight_sum = 0, bias_sum = 0;
    if (c < width) {
#pragma unroll 4
      for (int64_t r = split * length + row_thread; r < end; r += kColumnThreads) {
        const T mu = mean == nullptr ? T{0} : mean[r];
        const T g = dy[r * width + c];
        weight_sum += g * ((x[r * width + c] - mu) * rstd[r]);
        bias_sum += g;
      }
    }
    thread_sums[0][row_thread][column] = static_cast<double>(weight_sum);
    thread_sums[1][row_thread][column] = static_cast<double>(bias_sum);
    __syncthreads();
    if (row_thread < 2 && c < width) {  // row_thread 0 adds up the weight's sums, row_thread 1 the bias's
      double sum = 0;
      for (int s = 0; s < kColumnThreads; ++s) sum += thread_sums[row_thread][s][column];
      sums[(split * 2 + row_thread) * width + c] = sum;
    }
    __syncthreads();  // before the next task overwrites thread_sums
  }
}

/// Adds up the splits' sums, with a warp for each element of dweight and dbias.
template <class T>
__global__ void add_splits(int64_t width, int64_t splits, const double* sums, T* dweight, T* dbias) {
  using Warp = ThreadGroup<kWarp>;
  for (int64_t i = Warp::first_row(); i < 2 * width; i += Warp::row_step()) {
    T* to = i < width ? dweight : dbias;
    if (to == nullptr) continue;
    const double sum = sum_over_splits(sums, splits, 2 * width, i);
    if (Warp::lane() == 0) to[i < width ? i : i - width] = static_cast<T>(sum);
  }
}

template <class E, class T>
void norm_backward(const View& dx, const View* dweight, const View* dbias, const View& dy, const View& x,
                   const View* mean, const View& rstd, const View* weight) {
  const int64_t rows = x.shape[0], width = x.shape[1];
  for_group(width, [&](auto group) {
    using G = decltype(group);
    launch(norm_backward_rows<G, E, T>, ceil_div(rows, G::rows), kThreads, rows, width, data<const E>(dy),
           data<const E>(x), data<const T>(mean), data<const T>(rstd), Affine<T>{data<const T>(weight), T{1}},
           data<E>(dx));
  });
  if (dweight == nullptr && dbias == nullptr) return;
  const RowSplit splits(rows);
  const Scratch<double> sums(splits.count * 2 * width);
  launch(sum_rows<E, T>, ceil_div(width, kColumns) * splits.count, kColumns * kColumnThreads, rows, width,
         splits.count, splits.length, Row<E, T>{data<const E>(dy)}, Row<E, T>{data<const E>(x)}, data<const T>(mean),
         data<const T>(rstd), sums.data());
  launch(add_splits<T>, ceil_div(2 * width, ThreadGroup<kWarp>::rows), kThreads, width, splits.count, sums.data(),
         data<T>(dweight), data<T>(dbias));
}

void layer_norm(View y, View mean, View rstd, View x, const View* weight, const View* bias, double eps) {
  const int64_t rows = x.shape[0], width = x.shape[1];
  dispatch_computed(x.dtype, [&](auto stored, auto computed) {
    using E = decltype(stored);
    using T = decltype(computed);
    for_group(width, [&](auto group) {
      using G = decltype(group);
      launch(layer_norm_rows<G, E, T>, ceil_div(rows, G::rows), kThreads, rows, width, data<const E>(x),
             Affine<T>{data<const T>(weight), T{1}}, Affine<T>{data<const T>(bias), T{0}}, eps, data<E>(y),
             data<T>(mean), data<T>(rstd));
    });
  });
}

void rms_norm(View y, View rstd, View x, const View* weight, double eps) {
  const int64_t rows = x.shape[0], width = x.shape[1];
  dispatch_computed(x.dtype, [&](auto stored, auto computed) {
    using E = decltype(stored);
    using T = decltype(computed);
    for_group(width, [&](auto group) {
      using G = decltype(group);
      launch(rms_norm_rows<G, E, T>, ceil_div(rows, G::rows), kThreads, rows, width, data<const E>(x),
             Affine<T>{data<const T>(weight), T{1}}, eps, data<E>(y), data<T>(rstd));
    });
  });
}

void layer_norm_backward(View dx, const View* dweight, const View* dbias, View dy, View x, View mean, View rstd,
                         const View* weight) {
  dispatch_computed(x.dtype, [&](auto stored, auto computed) {
    norm_backward<decltype(stored), decltype(computed)>(dx, dweight, dbias, dy, x, &mean, rstd, weight);
  });
}

void rms_norm_backward(View dx, const View* dweight, View dy, View x, View rstd, const View* weight) {
  dispatch_computed(x.dtype, [&](auto stored, auto computed) {
    norm_backward<decltype(stored), decltype(computed)>(dx, dweight, nullptr, dy, x, nullptr, rstd, weight);
  });
}

}  // namespace

void fill_normalisation(Backend& table) {
  table.layer_norm = layer_norm;
  table.layer_norm_backward = layer_norm_backward;
  table.rms_norm = rms_norm;
  table.rms_norm_backward = rms_norm_backward;
}

}  // namespace linnet::cuda
