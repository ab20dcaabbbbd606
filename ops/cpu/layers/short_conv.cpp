#include <algorithm>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>

/// A depthwise convolution over the tokens, added to them: y_i = x_i + Σ_t weight[:, t] ∘ x_{i + t − before}.
/// Memory-bound: a chunk of tokens is read and written once, and the taps find their rows in the cache. The inner
/// loops run over channels, which are contiguous.

namespace linnet::cpu::LINNET_ISA {
namespace {

template <class T>
class ShortConv {
 public:
  ShortConv(const View& x, const View& weight, const View* padding_mask, int64_t before)
      : x_(x),
        padding_mask_(padding_mask),
        batch_(x.shape[0]),
        tokens_(x.shape[1]),
        channels_(x.shape[2]),
        taps_(weight.shape[1]),
        before_(before),
        chunk_size_(std::max(kGrain / std::max(channels_, int64_t{1}), 4 * taps_)),
        chunks_(ceil_div(tokens_, chunk_size_)),
        taps_first_(taps_ * channels_) {
    for (int64_t t = 0; t < taps_; ++t) {
      for (int64_t c = 0; c < channels_; ++c) {
        taps_first_[t * channels_ + c] = data<T>(weight)[c * weight.strides[0] + t * weight.strides[1]];
      }
    }
  }

  void forward(const View& y) const {
    for_each_chunk([&](int64_t b, int64_t begin, int64_t end, int64_t) {
      for (int64_t i = begin; i < end; ++i) {
        T* to = row(y, b, i);
        std::copy_n(row(x_, b, i), channels_, to);
        for (int64_t t = 0; t < taps_; ++t) {
          const int64_t j = i + t - before_;
          if (kept(b, j)) add_product(to, &taps_first_[t * channels_], row(x_, b, j));
        }
      }
    });
  }

  void backward(const View& dx, const View& dweight, const View& dy) const {
    const int64_t size = taps_ * channels_;
    const Scratch<T> partial(batch_ * chunks_ * size);
    for_each_chunk([&](int64_t b, int64_t begin, int64_t end, int64_t chunk) {
      T* sums = partial.data() + chunk * size;
      std::fill_n(sums, size, T{0});
      for (int64_t j = begin; j < end; ++j) {
        T* to = row(dx, b, j);
        std::copy_n(row(dy, b, j), channels_, to);
        if (!kept(b, j)) continue;
        for (int64_t t = 0; t < taps_; ++t) {
          const int64_t i = j - t + before_;  // the token whose tap t is at token j
          if (i < 0 || i >= tokens_) continue;
          add_product(to, &taps_first_[t * channels_], row(dy, b, i));
          add_product(sums + t * channels_, row(x_, b, j), row(dy, b, i));
        }
      }
    });
    for (int64_t t = 0; t < taps_; ++t) {
      for (int64_t c = 0; c < channels_; ++c) {
        T sum = 0;
        for (int64_t chunk = 0; chunk < batch_ * chunks_; ++chunk) sum += partial[chunk * size + t * channels_ + c];
        data<T>(dweight)[c * dweight.strides[0] + t * dweight.strides[1]] = sum;
      }
    }
  }

 private:
  static T* row(const View& x, int64_t b, int64_t i) { return data<T>(x) + b * x.strides[0] + i * x.strides[1]; }
  bool kept(int64_t b, int64_t i) const {
    if (i < 0 || i >= tokens_) return false;
    return padding_mask_ == nullptr ||
           data<bool>(*padding_mask_)[b * padding_mask_->strides[0] + i * padding_mask_->strides[1]];
  }
  void add_product(T* to, const T* a, const T* b) const {
#pragma omp simd
    for (int64_t c = 0; c < channels_; ++c) to[c] += a[c] * b[c];
  }

  /// Calls `f(b, begin, end, chunk)` for each chunk of each sequence; `chunk` counts those of all sequences.
  template <class F>
  void for_each_chunk(F&& f) const {
    const int64_t cost = std::min(chunk_size_, tokens_) * channels_ * taps_;
    parallel_for(batch_ * chunks_, std::max(kGrain / std::max(cost, int64_t{1}), int64_t{1}),
                 [&](int64_t first, int64_t last) {
                   for (int64_t chunk = first; chunk < last; ++chunk) {
                     const int64_t begin = chunk % chunks_ * chunk_size_;
                     f(chunk / chunks_, begin, std::min(begin + chunk_size_, tokens_), chunk);
                   }
                 });
  }

  const View& x_;
  const View* padding_mask_;
  int64_t batch_, tokens_, channels_, taps_, before_, chunk_size_, chunks_;
  Scratch<T> taps_first_;  // the weight transposed, [taps, C]
};

void short_conv(View y, View x, View weight, const View* padding_mask, int64_t before) {
  dispatch_floating(y.dtype, [&]<class T>(T) { ShortConv<T>(x, weight, padding_mask, before).forward(y); });
}

void short_conv_backward(View dx, View dweight, View dy, View x, View weight, const View* padding_mask,
                         int64_t before) {
  dispatch_floating(x.dtype,
                    [&]<class T>(T) { ShortConv<T>(x, weight, padding_mask, before).backward(dx, dweight, dy); });
}

}  // namespace

void fill_short_conv(Backend& table) {
  table.short_conv = short_conv;
  table.short_conv_backward = short_conv_backward;
}

}  // namespace linnet::cpu::LINNET_ISA
