#include <algorithm>

#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/layers/row_split.cuh>

/// A depthwise convolution over the tokens, added to them. Bound by memory, or where elements are bfloat16 by some 50
/// instructions for each: neighbouring threads have neighbouring channels, of which each takes a run of tokens with
/// those around it into registers. The weight's gradient is summed in pieces of the runs. Elements are of type E, the
/// weight and sums of type T: for bfloat16 that is float, else they are one type.

namespace linnet::cuda {
namespace {

constexpr int kRun = 16;  ///< tokens of a thread
constexpr int kTaps = 4;  ///< that are taken together
constexpr int kReach = kRun + kTaps - 1;

/// [B, N, C] with unit stride in C.
template <class E>
struct Rows {
  E* data;
  int64_t batch_stride, token_stride;

  explicit Rows(const View& x)
      : data(static_cast<E*>(x.data)), batch_stride(x.strides[0]), token_stride(x.strides[1]) {}

  __device__ E* at(int64_t b, int64_t i, int64_t c) const { return data + b * batch_stride + i * token_stride + c; }
};

template <class T>
struct Problem {
  const T* weight;
  int64_t channel_stride, tap_stride;
  int64_t batch, tokens, channels, taps, before;

  Problem(const View& x, const View& weight_view, int64_t before_)
      : weight(data<const T>(weight_view)),
        channel_stride(weight_view.strides[0]),
        tap_stride(weight_view.strides[1]),
        batch(x.shape[0]),
        tokens(x.shape[1]),
        channels(x.shape[2]),
        taps(weight_view.shape[1]),
        before(before_) {}

  /// With the taps from last to first, which is the way that gradients take back.
  Problem reversed() const {
    Problem y = *this;
    y.weight += (taps - 1) * tap_stride;
    y.tap_stride = -tap_stride;
    y.before = taps - 1 - before;
    return y;
  }

  __host__ __device__ int64_t runs_of_sequence() const { return ceil_div(tokens, kRun); }
  __host__ __device__ int64_t runs() const { return batch * runs_of_sequence(); }
  __device__ T tap(int64_t c, int64_t t) const { return weight[c * channel_stride + t * tap_stride]; }

  /// Which of 31 tokens from `begin` on exist, and `padding_mask` keeps: bit k stands for token begin + k.
  __device__ uint32_t find(const PaddingMask& padding_mask, int64_t b, int64_t begin) const {
    const auto bits_before = [=](int64_t i) { return (1u << min(max(i - begin, int64_t{0}), int64_t{31})) - 1; };
    uint32_t found = bits_before(tokens) & ~bits_before(0);
    if (padding_mask.data != nullptr) {
#pragma unroll
      for (int k = 0; k < kReach; ++k) {
        if ((found >> k & 1) != 0 && !padding_mask.has(b, begin + k)) found &= ~(1u << k);
      }
    }
    return found;
  }
};

/// Tokens of x from `begin` on, of channel c, as T; 0 where they are not among the `found`.
template <int kCount, class E, class T>
__device__ void load_tokens(T (&to)[kCount], uint32_t found, const Rows<const E>& x, int64_t b, int64_t begin,
                            int64_t c) {
  E loaded[kCount] = {};
  const E* from = x.at(b, begin, c);
#pragma unroll
  for (int k = 0; k < kCount; ++k, from += x.token_stride) {
    if ((found >> k & 1) != 0) loaded[k] = *from;
  }
#pragma unroll
  for (int k = 0; k < kCount; ++k) to[k] = static_cast<T>(loaded[k]);
}

/// y_i = x_i + sum over t of w_t·x_j, j = i + t − before, of the x_j that `from` keeps, where `to` keeps y_i; where
/// not, y_i = x_i. Forward takes from what is no padding, backward to it.
template <class E, class T>
__global__ void convolve(Problem<T> in, PaddingMask from, PaddingMask to, Rows<const E> x, Rows<E> y) {
  for (int64_t e = first_item(); e < in.runs() * in.channels; e += item_step()) {
    const int64_t run = e / in.channels, c = e % in.channels;
    const int64_t b = run / in.runs_of_sequence(), begin = run % in.runs_of_sequence() * kRun;
    T sum[kRun] = {};
    for (int64_t t = 0; t < in.taps; t += kTaps) {
      T reach[kReach];
      const int64_t first = begin + t - in.before;
      load_tokens(reach, in.find(from, b, first), x, b, first, c);
#pragma unroll
      for (int s = 0; s < kTaps; ++s) {
        if (t + s >= in.taps) break;
        const T w = in.tap(c, t + s);
#pragma unroll
        for (int k = 0; k < kRun; ++k) sum[k] += w * reach[k + s];
      }
    }
    T own[kRun];
    const uint32_t there = in.find({}, b, begin), summed = in.find(to, b, begin);
    load_tokens(own, there, x, b, begin, c);
    E* out = y.at(b, begin, c);
#pragma unroll
    for (int k = 0; k < kRun; ++k, out += y.token_stride) {
      if ((summed >> k & 1) != 0) own[k] += sum[k];
      if ((there >> k & 1) != 0) *out = static_cast<E>(own[k]);
    }
  }
}

/// The weight's gradient over a piece of the runs, in a fixed order:
///   sums[piece, t, c] = sum of x_j·dy_i, j being tap t of i and no padding
/// A block for kColumns channels and kTaps taps, of whose runs each of kSlices threads sums every kSlices-th.
template <class E, class T>
__global__ void sum_taps(Problem<T> in, PaddingMask padding_mask, Rows<const E> x, Rows<const E> dy, int64_t pieces,
                         int64_t length, double* sums) {
  __shared__ double slices[kTaps][kSlices][kColumns];
  const int column = static_cast<int>(threadIdx.x) % kColumns, slice = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t blocks = ceil_div(in.channels, kColumns), reaches = ceil_div(in.taps, kTaps);
  for (int64_t task = blockIdx.x; task < blocks * reaches * pieces; task += gridDim.x) {
    const int64_t piece = task / blocks / reaches, t = task / blocks % reaches * kTaps;
    const int64_t c = task % blocks * kColumns + column;
    const int64_t end = min((piece + 1) * length, in.runs());
    double sum[kTaps] = {};
    for (int64_t run = piece * length + slice; run < end && c < in.channels; run += kSlices) {
      const int64_t b = run / in.runs_of_sequence(), begin = run % in.runs_of_sequence() * kRun;
      const int64_t first = begin + in.before - t - (kTaps - 1);
      const uint32_t kept = in.find(padding_mask, b, begin);
      T own[kRun], reach[kReach], of_run[kTaps] = {};
      load_tokens(own, kept, x, b, begin, c);
      load_tokens(reach, in.find({}, b, first), dy, b, first, c);
#pragma unroll
      for (int k = 0; k < kRun; ++k) {
        if ((kept >> k & 1) == 0) continue;  // no 0·∞
#pragma unroll
        for (int s = 0; s < kTaps; ++s) of_run[s] += own[k] * reach[k + kTaps - 1 - s];
      }
#pragma unroll
      for (int s = 0; s < kTaps; ++s) sum[s] += static_cast<double>(of_run[s]);
    }
#pragma unroll
    for (int s = 0; s < kTaps; ++s) slices[s][slice][column] = sum[s];
    __syncthreads();
    if (slice < kTaps && t + slice < in.taps && c < in.channels) {  // one slice's threads for each tap
      double total = 0;
      for (int s = 0; s < kSlices; ++s) total += slices[slice][s][column];
      sums[(piece * in.taps + t + slice) * in.channels + c] = total;
    }
    __syncthreads();  // before the next task writes there
  }
}

/// A warp for each weight.
template <class T>
__global__ void add_pieces(Problem<T> in, int64_t pieces, const double* sums, T* dweight, int64_t channel_stride,
                           int64_t tap_stride) {
  using Warp = ThreadGroup<kWarp>;
  for (int64_t i = Warp::first_row(); i < in.taps * in.channels; i += Warp::row_step()) {
    const double sum = sum_of_pieces(sums, pieces, in.taps * in.channels, i);
    if (Warp::lane() != 0) continue;
    dweight[i % in.channels * channel_stride + i / in.channels * tap_stride] = static_cast<T>(sum);
  }
}

void short_conv(View y, View x, View weight, const View* padding_mask, int64_t before) {
  dispatch_computed(x.dtype, [&](auto element, auto computed) {
    using E = decltype(element);
    using T = decltype(computed);
    const Problem<T> in(x, weight, before);
    launch(convolve<E, T>, blocks_for(in.runs() * in.channels), kThreads, in, PaddingMask(padding_mask),
           PaddingMask(), Rows<const E>(x), Rows<E>(y));
  });
}

void short_conv_backward(View dx, View dweight, View dy, View x, View weight, const View* padding_mask,
                         int64_t before) {
  dispatch_computed(x.dtype, [&](auto element, auto computed) {
    using E = decltype(element);
    using T = decltype(computed);
    const Problem<T> in(x, weight, before);
    launch(convolve<E, T>, blocks_for(in.runs() * in.channels), kThreads, in.reversed(), PaddingMask(),
           PaddingMask(padding_mask), Rows<const E>(dy), Rows<E>(dx));
    const RowSplit pieces(in.runs(), kSlices);
    const int64_t weights = in.taps * in.channels;
    const Scratch<double> sums(pieces.count * weights);
    launch(sum_taps<E, T>, ceil_div(in.channels, kColumns) * ceil_div(in.taps, kTaps) * pieces.count,
           kColumns * kSlices, in, PaddingMask(padding_mask), Rows<const E>(x), Rows<const E>(dy), pieces.count,
           pieces.length, sums.data());
    launch(add_pieces<T>, ceil_div(weights, ThreadGroup<kWarp>::rows), kThreads, in, pieces.count, sums.data(),
           data<T>(dweight), dweight.strides[0], dweight.strides[1]);
  });
}

}  // namespace

void fill_short_conv(Backend& table) {
  table.short_conv = short_conv;
  table.short_conv_backward = short_conv_backward;
}

}  // namespace linnet::cuda
