#include <algorithm>

#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/math.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/layers/row_split.cuh>

/// Normalisation of rows. Memory bounds these kernels: each reads a row from there once, and again from the cache.
/// The sums over rows read the operands a second time. Elements are of type E, and what is made of them of type T, as
/// are statistics, factors and offsets: for bfloat16 T is float, else they are one type.

namespace linnet::cuda {
namespace {

/// A row of elements, as T.
template <class E, class T>
struct Row {
  const E* data;

  __device__ T operator[](int64_t c) const { return static_cast<T>(data[c]); }
};

/// A row of factors or offsets: the given one, or `value` everywhere when there is none.
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
    const T scale = rsqrt(static_cast<T>(variance + eps));
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

/// Both backward passes. With x̂ = (x − mean)·rstd (mean 0 for RMSNorm, which has none) and g = dy·weight, means taken
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

/// Sums over a piece of the rows, for kColumns columns a block, in a fixed order:
///   sums[piece, 0] = sum of dy·x̂ (the gradient of weight),   sums[piece, 1] = sum of dy (that of bias)
template <class E, class T>
__global__ void sum_rows(int64_t rows, int64_t width, int64_t pieces, int64_t length, Row<E, T> dy, Row<E, T> x,
                         const T* mean, const T* rstd, double* sums) {
  __shared__ double slices[2][kSlices][kColumns];
  const int column = static_cast<int>(threadIdx.x) % kColumns, slice = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t blocks = ceil_div(width, kColumns);
  for (int64_t task = blockIdx.x; task < blocks * pieces; task += gridDim.x) {
    const int64_t piece = task / blocks, c = task % blocks * kColumns + column;
    const int64_t end = min((piece + 1) * length, rows);
    T weight_sum = 0, bias_sum = 0;
    if (c < width) {
#pragma unroll 4
      for (int64_t r = piece * length + slice; r < end; r += kSlices) {
        const T mu = mean == nullptr ? T{0} : mean[r];
        const T g = dy[r * width + c];
        weight_sum += g * ((x[r * width + c] - mu) * rstd[r]);
        bias_sum += g;
      }
    }
    slices[0][slice][column] = static_cast<double>(weight_sum);
    slices[1][slice][column] = static_cast<double>(bias_sum);
    __syncthreads();
    if (slice < 2 && c < width) {  // one slice's threads add up the weight's sums, the next one's the bias's
      double sum = 0;
      for (int s = 0; s < kSlices; ++s) sum += slices[slice][s][column];
      sums[(piece * 2 + slice) * width + c] = sum;
    }
    __syncthreads();  // before the next task writes there
  }
}

/// A warp for each number.
template <class T>
__global__ void add_pieces(int64_t width, int64_t pieces, const double* sums, T* dweight, T* dbias) {
  using Warp = ThreadGroup<kWarp>;
  for (int64_t i = Warp::first_row(); i < 2 * width; i += Warp::row_step()) {
    T* to = i < width ? dweight : dbias;
    if (to == nullptr) continue;
    const double sum = sum_of_pieces(sums, pieces, 2 * width, i);
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
  const RowSplit pieces(rows);
  const Scratch<double> sums(pieces.count * 2 * width);
  launch(sum_rows<E, T>, ceil_div(width, kColumns) * pieces.count, kColumns * kSlices, rows, width, pieces.count,
         pieces.length, Row<E, T>{data<const E>(dy)}, Row<E, T>{data<const E>(x)}, data<const T>(mean),
         data<const T>(rstd), sums.data());
  launch(add_pieces<T>, ceil_div(2 * width, ThreadGroup<kWarp>::rows), kThreads, width, pieces.count, sums.data(),
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
