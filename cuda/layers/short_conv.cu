#include <algorithm>

#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/heads.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/layers/row_split.cuh>

/// A depthwise convolution over the tokens, added to them. Memory bounds it; for bfloat16, about 50 instructions for
/// each element do. Neighbouring threads have neighbouring channels. Each thread loads a chunk of tokens of its
/// channel, and the tokens around the chunk, into registers. The weight's gradient is summed over splits of the
/// chunks. Elements have type E, and the weight and sums type T: float for bfloat16, otherwise E.

namespace linnet::cuda {
namespace {

constexpr int kChunk = 16;                  ///< the number of tokens of a chunk, which one thread takes
constexpr int kTaps = 4;                    ///< the number of taps that are handled together
constexpr int kReach = kChunk + kTaps - 1;  ///< the number of tokens that these taps of a chunk read

/// A view [B, N, C] with stride 1 in C.
template <class E>
struct ChannelsView {
  E* data;
  int64_t batch_stride, token_stride;

  explicit ChannelsView(const View& x)
      : data(static_cast<E*>(x.data)), batch_stride(x.strides[0]), token_stride(x.strides[1]) {}

  __device__ E* at(int64_t b, int64_t i, int64_t c) const { return data + b * batch_stride + i * token_stride + c; }
};

/// The weight [C, taps] and the sizes. For token i, tap t reads token i + t − before.
template <class T>
struct ShortConvInputs {
  const T* weight;
  int64_t channel_stride, tap_stride;
  int64_t batch, tokens, channels, taps, before;

  ShortConvInputs(const View& x, const View& weight_view, int64_t before_)
      : weight(data<const T>(weight_view)),
        channel_stride(weight_view.strides[0]),
        tap_stride(weight_view.strides[1]),
        batch(x.shape[0]),
        tokens(x.shape[1]),
        channels(x.shape[2]),
        taps(weight_view.shape[1]),
        before(before_) {}

  /// The same with the taps in reverse order, for the gradient by x.
  ShortConvInputs reversed() const {
    ShortConvInputs y = *this;
    y.weight += (taps - 1) * tap_stride;
    y.tap_stride = -tap_stride;
    y.before = taps - 1 - before;
    return y;
  }

  __host__ __device__ int64_t chunks_of_sequence() const { return ceil_div(tokens, kChunk); }
  __host__ __device__ int64_t chunks() const { return batch * chunks_of_sequence(); }
  __device__ T tap(int64_t c, int64_t t) const { return weight[c * channel_stride + t * tap_stride]; }

  /// The tokens that exist and are not padding, as bits: bit k is for token begin + k, for k < 31.
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

/// kCount tokens of x from `begin` on, of channel c, as T; 0 where the bit in `found` is not set.
template <int kCount, class E, class T>
__device__ void load_tokens(T (&to)[kCount], uint32_t found, const ChannelsView<const E>& x, int64_t b, int64_t begin,
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

/// y_i = x_i + Σ_t w_t·x_j with j = i + t − before, over the j for which the mask `from` is true. If `to` is false
/// for i, y_i = x_i. Forward masks x_j with the padding mask, and backward masks y_i.
template <class E, class T>
__global__ void convolve(ShortConvInputs<T> in, PaddingMask from, PaddingMask to, ChannelsView<const E> x,
                         ChannelsView<E> y) {
  for (int64_t e = first_item(); e < in.chunks() * in.channels; e += item_step()) {
    const int64_t chunk = e / in.channels, c = e % in.channels;
    const int64_t b = chunk / in.chunks_of_sequence(), begin = chunk % in.chunks_of_sequence() * kChunk;
    T sum[kChunk] = {};
    for (int64_t t = 0; t < in.taps; t += kTaps) {
      T reach[kReach];
      const int64_t first = begin + t - in.before;
      load_tokens(reach, in.find(from, b, first), x, b, first, c);
#pragma unroll
      for (int s = 0; s < kTaps; ++s) {
        if (t + s >= in.taps) break;
        const T w = in.tap(c, t + s);
#pragma unroll
        for (int k = 0; k < kChunk; ++k) sum[k] += w * reach[k + s];
      }
    }
    T own[kChunk];
    const uint32_t exists = in.find({}, b, begin), summed = in.find(to, b, begin);
    load_tokens(own, exists, x, b, begin, c);
    E* out = y.at(b, begin, c);
#pragma unroll
    for (int k = 0; k < kChunk; ++k, out += y.token_stride) {
      if ((summed >> k & 1) != 0) own[k] += sum[k];
      if ((exists >> k & 1) != 0) *out = static_cast<E>(own[k]);
    }
  }
}

/// The weight's gradient over one split of the chunks, in a fixed order:
///   sums[split, t, c] = Σ x_j·dy_i over the tokens i, where j = i + t − before exists and is not padding
/// A block takes kColumns channels and kTaps taps. Thread `row_thread` of a channel sums every kColumnThreads-th
/// chunk.
template <class E, class T>
__global__ void sum_taps(ShortConvInputs<T> in, PaddingMask padding_mask, ChannelsView<const E> x,
                         ChannelsView<const E> dy, int64_t splits, int64_t length, double* sums) {
  __shared__ double thread_sums[kTaps][kColumnThreads][kColumns];
  const int column = static_cast<int>(threadIdx.x) % kColumns, row_thread = static_cast<int>(threadIdx.x) / kColumns;
  const int64_t blocks = ceil_div(in.channels, kColumns), reaches = ceil_div(in.taps, kTaps);
  for (int64_t task = blockIdx.x; task < blocks * reaches * splits; task += gridDim.x) {
    const int64_t split = task / blocks / reaches, t = task / blocks % reaches * kTaps;
    const int64_t c = task % blocks * kColumns + column;
    const int64_t end = min((split + 1) * length, in.chunks());
    double sum[kTaps] = {};
    for (int64_t chunk = split * length + row_thread; chunk < end && c < in.channels; chunk += kColumnThreads) {
      const int64_t b = chunk / in.chunks_of_sequence(), begin = chunk % in.chunks_of_sequence() * kChunk;
      const int64_t first = begin + in.before - t - (kTaps - 1);
      const uint32_t kept = in.find(padding_mask, b, begin);
      T own[kChunk], reach[kReach], chunk_sum[kTaps] = {};
      load_tokens(own, kept, x, b, begin, c);
      load_tokens(reach, in.find({}, b, first), dy, b, first, c);
#pragma unroll
      for (int k = 0; k < kChunk; ++k) {
        if ((kept >> k & 1) == 0) continue;  // 0·∞ would be NaN
#pragma unroll
        for (int s = 0; s < kTaps; ++s) chunk_sum[s] += own[k] * reach[k + kTaps - 1 - s];
      }
#pragma unroll
      for (int s = 0; s < kTaps; ++s) sum[s] += static_cast<double>(chunk_sum[s]);
    }
#pragma unroll
    for (int s = 0; s < kTaps; ++s) thread_sums[s][row_thread][column] = sum[s];
    __syncthreads();
    if (row_thread < kTaps && t + row_thread < in.taps && c < in.channels) {  // row_thread s adds up tap t + s
      double total = 0;
      for (int s = 0; s < kColumnThreads; ++s) total += thread_sums[row_thread][s][column];
      sums[(split * in.taps + t + row_thread) * in.channels + c] = total;
    }
    __syncthreads();  // before the next task overwrites thread_sums
  }
}

/// Adds up the splits' sums, with a warp for each weight.
template <class T>
__global__ void add_splits(ShortConvInputs<T> in, int64_t splits, const double* sums, T* dweight,
                           int64_t channel_stride, int64_t tap_stride) {
  using Warp = ThreadGroup<kWarp>;
  for (int64_t i = Warp::first_row(); i < in.taps * in.channels; i += Warp::row_step()) {
    const double sum = sum_over_splits(sums, splits, in.taps * in.channels, i);
    if (Warp::lane() != 0) continue;
    dweight[i % in.channels * channel_stride + i / in.channels * tap_stride] = static_cast<T>(sum);
  }
}

void short_conv(View y, View x, View weight, const View* padding_mask, int64_t before) {
  dispatch_computed(x.dtype, [&](auto element, auto computed) {
    using E = decltype(element);
    using T = decltype(computed);
    const ShortConvInputs<T> in(x, weight, before);
    launch(convolve<E, T>, blocks_for(in.chunks() * in.channels), kThreads, in, PaddingMask(padding_mask),
           PaddingMask(), ChannelsView<const E>(x), ChannelsView<E>(y));
  });
}

void short_conv_backward(View dx, View dweight, View dy, View x, View weight, const View* padding_mask,
                         int64_t before) {
  dispatch_computed(x.dtype, [&](auto element, auto computed) {
    using E = decltype(element);
    using T = decltype(computed);
    const ShortConvInputs<T> in(x, weight, before);
    launch(convolve<E, T>, blocks_for(in.chunks() * in.channels), kThreads, in.reversed(), PaddingMask(),
           PaddingMask(padding_mask), ChannelsView<const E>(dy), ChannelsView<E>(dx));
    const RowSplit splits(in.chunks(), kColumnThreads);
    const int64_t weights = in.taps * in.channels;
    const Scratch<double> sums(splits.count * weights);
    launch(sum_taps<E, T>, ceil_div(in.channels, kColumns) * ceil_div(in.taps, kTaps) * splits.count,
           kColumns * kColumnThreads, in, PaddingMask(padding_mask), ChannelsView<const E>(x),
           ChannelsView<const E>(dy), splits.count, splits.length, sums.data());
    launch(add_splits<T>, ceil_div(weights, ThreadGroup<kWarp>::rows), kThreads, in, splits.count, sums.data(),
           data<T>(dweight), dweight.strides[0], dweight.strides[1]);
  });
}

}  // namespace

void fill_short_conv(Backend& table) {
  table.short_conv = short_conv;
  table.short_conv_backward = short_conv_backward;
}

}  // namespace linnet::cuda
