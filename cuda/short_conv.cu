#include <algorithm>

#include <linnet/cuda/bfloat16.cuh>
#include <linnet/cuda/heads.cuh>
#include <linnet/cuda/kernel.cuh>
#include <linnet/cuda/pieces.cuh>
#include <linnet/cuda/scratch.cuh>

/// A depthwise convolution over the tokens, added to them. Bound by memory: neighbouring threads have neighbouring
/// channels, and the taps find their rows in the cache. The weight's gradient is summed in pieces of the tokens.
/// Elements are of type E, the weight and sums of type T: for bfloat16 that is float, else they are one type.

namespace linnet::cuda {
namespace {

/// [B, N, C] with unit stride in C.
template <class E>
struct Rows {
  E* data;
  int64_t batch_stride, token_stride;

  explicit Rows(const View& x)
      : data(static_cast<E*>(x.data)), batch_stride(x.strides[0]), token_stride(x.strides[1]) {}

  __device__ E& at(int64_t b, int64_t i, int64_t c) const { return data[b * batch_stride + i * token_stride + c]; }
};

template <class E, class T>
struct Problem {
  Rows<const E> x;
  const T* weight;
  Keep keep;
  int64_t channel_stride, tap_stride;
  int64_t batch, tokens, channels, taps, before;

  Problem(const View& x_view, const View& weight_view, const View* keep_view, int64_t before_)
      : x(x_view),
        weight(data<const T>(weight_view)),
        keep(keep_view),
        channel_stride(weight_view.strides[0]),
        tap_stride(weight_view.strides[1]),
        batch(x_view.shape[0]),
        tokens(x_view.shape[1]),
        channels(x_view.shape[2]),
        taps(weight_view.shape[1]),
        before(before_) {}

  int64_t count() const { return batch * tokens * channels; }
  __device__ bool kept(int64_t b, int64_t i) const { return i >= 0 && i < tokens && keep.has(b, i); }
  __device__ T tap(int64_t c, int64_t t) const { return weight[c * channel_stride + t * tap_stride]; }
};

template <class E, class T>
__global__ void convolve(Problem<E, T> in, Rows<E> y) {
  for (int64_t e = first_item(); e < in.batch * in.tokens * in.channels; e += item_step()) {
    const int64_t c = e % in.channels, i = e / in.channels % in.tokens, b = e / in.channels / in.tokens;
    auto sum = static_cast<T>(in.x.at(b, i, c));
    for (int64_t t = 0; t < in.taps; ++t) {
      const int64_t j = i + t - in.before;
      if (in.kept(b, j)) sum += in.tap(c, t) * static_cast<T>(in.x.at(b, j, c));
    }
    y.at(b, i, c) = sum;
  }
}

template <class E, class T>
__global__ void convolve_backward(Problem<E, T> in, Rows<const E> dy, Rows<E> dx) {
  for (int64_t e = first_item(); e < in.batch * in.tokens * in.channels; e += item_step()) {
    const int64_t c = e % in.channels, j = e / in.channels % in.tokens, b = e / in.channels / in.tokens;
    auto sum = static_cast<T>(dy.at(b, j, c));
    for (int64_t t = 0; t < in.taps && in.kept(b, j); ++t) {
      const int64_t i = j - t + in.before;  // the token that has this one at tap t
      if (i >= 0 && i < in.tokens) sum += in.tap(c, t) * static_cast<T>(dy.at(b, i, c));
    }
    dx.at(b, j, c) = sum;
  }
}

/// The weight's gradient over a piece of the tokens, in a fixed order:
///   sums[piece, t, c] = sum of x_j·dy_i, j being tap t of i
/// A block for kColumns channels of one tap, of whose tokens each of kSlices threads sums every kSlices-th.
template <class E, class T>
__global__ void sum_taps(Problem<E, T> in, Rows<const E> dy, int64_t pieces, int64_t length, double* sums) {
  __shared__ double slices[kSlices][kColumns];
  const int column = static_cast<int>(threadIdx.x) % kColumns, slice = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t blocks = ceil_div(in.channels, kColumns);
  for (int64_t task = blockIdx.x; task < blocks * in.taps * pieces; task += gridDim.x) {
    const int64_t piece = task / blocks / in.taps, t = task / blocks % in.taps;
    const int64_t c = task % blocks * kColumns + column;
    const int64_t end = min((piece + 1) * length, in.batch * in.tokens);
    double sum = 0;
    for (int64_t row = piece * length + slice; row < end && c < in.channels; row += kSlices) {
      const int64_t b = row / in.tokens, j = row % in.tokens, i = j - t + in.before;
      if (i < 0 || i >= in.tokens || !in.kept(b, j)) continue;
      sum += static_cast<double>(in.x.at(b, j, c)) * static_cast<double>(dy.at(b, i, c));
    }
    slices[slice][column] = sum;
    __syncthreads();
    if (slice == 0 && c < in.channels) {
      for (int s = 1; s < kSlices; ++s) sum += slices[s][column];
      sums[(piece * in.taps + t) * in.channels + c] = sum;
    }
    __syncthreads();  // before the next task writes there
  }
}

template <class E, class T>
__global__ void add_pieces(Problem<E, T> in, int64_t pieces, const double* sums, T* dweight, int64_t channel_stride,
                           int64_t tap_stride) {
  for (int64_t e = first_item(); e < in.taps * in.channels; e += item_step()) {
    dweight[e % in.channels * channel_stride + e / in.channels * tap_stride] =
        static_cast<T>(sum_of_pieces(sums, pieces, in.taps * in.channels, e));
  }
}

void short_conv(View y, View x, View weight, const View* keep, int64_t before) {
  dispatch_computed(x.dtype, [&](auto element, auto computed) {
    using E = decltype(element);
    using T = decltype(computed);
    const Problem<E, T> in(x, weight, keep, before);
    launch(convolve<E, T>, blocks_for(in.count()), kThreads, in, Rows<E>(y));
  });
}

void short_conv_backward(View dx, View dweight, View dy, View x, View weight, const View* keep, int64_t before) {
  dispatch_computed(x.dtype, [&](auto element, auto computed) {
    using E = decltype(element);
    using T = decltype(computed);
    const Problem<E, T> in(x, weight, keep, before);
    launch(convolve_backward<E, T>, blocks_for(in.count()), kThreads, in, Rows<const E>(dy), Rows<E>(dx));
    const Pieces pieces(in.batch * in.tokens);
    const int64_t weights = in.taps * in.channels;
    const Scratch<double> sums(pieces.count * weights);
    launch(sum_taps<E, T>, ceil_div(in.channels, kColumns) * in.taps * pieces.count, kColumns * kSlices, in,
           Rows<const E>(dy), pieces.count, pieces.length, sums.data());
    launch(add_pieces<E, T>, blocks_for(weights), kThreads, in, pieces.count, sums.data(), data<T>(dweight),
           dweight.strides[0], dweight.strides[1]);
  });
}

}  // namespace

void fill_short_conv(Backend& table) {
  table.short_conv = short_conv;
  table.short_conv_backward = short_conv_backward;
}

}  // namespace linnet::cuda
