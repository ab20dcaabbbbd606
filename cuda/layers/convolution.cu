#include <algorithm>

#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/matmul/blas.cuh>

/// Convolutions as matrix products (im2col). The input pixels that an output pixel reads are a column of `patches`,
/// [C · R · S, images, pixels]. So in each group y = weight · patches, d patches = weightᵀ · dy and d weight = dy ·
/// patchesᵀ. Patches are made for some images at a time, at least for one: a large image and a large kernel need much
/// memory. cuBLAS computes the products; memory bounds the copies before and after them.

namespace linnet::cuda {
namespace {

/// The number of elements of the patches in memory at a time, unless one image has more.
constexpr int64_t kPatchElements = int64_t{1} << 22;

/// The sizes of a convolution; `in` and `out` are the channels of one group.
struct Convolution {
  int64_t batch, in, out, height, width, taps[2], out_height, out_width;
  Conv2dParams params;

  Convolution(const View& x, const View& weight, const View& y, const Conv2dParams& params_)
      : batch(x.shape[0]),
        in(weight.shape[1]),
        out(weight.shape[0] / params_.groups),
        height(x.shape[2]),
        width(x.shape[3]),
        taps{weight.shape[2], weight.shape[3]},
        out_height(y.shape[2]),
        out_width(y.shape[3]),
        params(params_) {}

  __host__ __device__ int64_t kernel() const { return taps[0] * taps[1]; }
  __host__ __device__ int64_t in_pixels() const { return height * width; }
  __host__ __device__ int64_t out_pixels() const { return out_height * out_width; }
  __host__ __device__ int64_t channels() const { return in * params.groups; }
  int64_t depth() const { return in * kernel(); }
  /// The number of images whose patches are in memory at a time.
  int64_t images() const {
    return std::clamp<int64_t>(kPatchElements / (channels() * kernel() * out_pixels()), 1, batch);
  }
};

/// patches[c, r, s, n, i, j] of `images` images from x on.
template <class T>
__global__ void unfold(Convolution s, int64_t images, const T* x, T* patches) {
  const int64_t count = s.channels() * s.kernel() * images * s.out_pixels();
  for (int64_t item = first_item(); item < count; item += item_step()) {
    int64_t c = item;
    const int64_t j = take_inner(c, s.out_width), i = take_inner(c, s.out_height), n = take_inner(c, images);
    const int64_t column = take_inner(c, s.taps[1]), row = take_inner(c, s.taps[0]);  // of the tap
    const int64_t h = i * s.params.stride[0] + row * s.params.dilation[0] - s.params.padding[0];
    const int64_t w = j * s.params.stride[1] + column * s.params.dilation[1] - s.params.padding[1];
    const bool inside = h >= 0 && h < s.height && w >= 0 && w < s.width;
    patches[item] = inside ? x[(n * s.channels() + c) * s.in_pixels() + h * s.width + w] : T(0);
  }
}

/// The output pixel that reads input pixel `at` by a tap, along one dim; −1 if there is none. `at` already includes
/// the padding and the tap's offset.
__device__ inline int64_t seen_by(int64_t at, int64_t stride, int64_t size) {
  if (at < 0) return -1;
  const int64_t pixel = divide(at, stride);
  return pixel * stride == at && pixel < size ? pixel : -1;
}

/// dx[n, c, h, w] = the sum of the patches' elements that `unfold` copies from it, in the order of the taps.
template <class T>
__global__ void fold(Convolution s, int64_t images, const T* patches, T* dx) {
  const int64_t count = images * s.channels() * s.in_pixels();
  for (int64_t item = first_item(); item < count; item += item_step()) {
    int64_t n = item;
    const int64_t w = take_inner(n, s.width), h = take_inner(n, s.height), c = take_inner(n, s.channels());
    T sum = 0;
    for (int64_t row = 0; row < s.taps[0]; ++row) {
      const int64_t i =
          seen_by(h + s.params.padding[0] - row * s.params.dilation[0], s.params.stride[0], s.out_height);
      if (i < 0) continue;
      for (int64_t column = 0; column < s.taps[1]; ++column) {
        const int64_t j =
            seen_by(w + s.params.padding[1] - column * s.params.dilation[1], s.params.stride[1], s.out_width);
        if (j < 0) continue;
        const int64_t tap = (c * s.taps[0] + row) * s.taps[1] + column;
        sum += patches[(tap * images + n) * s.out_pixels() + i * s.out_width + j];
      }
    }
    dx[item] = sum;
  }
}

/// Calls `f(first, images)` for ranges of the batch.
template <class F>
void for_each_range(const Convolution& s, F f) {
  for (int64_t n = 0; n < s.batch; n += s.images()) f(n, std::min(s.images(), s.batch - n));
}

template <class T>
void forward(const Convolution& s, const View& y, const T* x, const T* weight, const View* bias) {
  if (bias != nullptr) {
    const int64_t strides[] = {0, bias->strides[0], 0, 0};
    cuda_backend().copy(y, {bias->data, bias->dtype, 4, y.shape, strides});
  }
  const int64_t pixels = s.out_pixels(), outs = s.out * s.params.groups;
  const Scratch<T> patches(s.channels() * s.kernel() * s.images() * pixels);
  for_each_range(s, [&](int64_t first, int64_t images) {
    launch(unfold<T>, blocks_for(s.channels() * s.kernel() * images * pixels), kThreads, s, images,
           x + first * s.channels() * s.in_pixels(), patches.data());
    for (int64_t g = 0; g < s.params.groups; ++g) {
      gemm<T, T>(images, s.out, pixels, s.depth(), {weight + g * s.out * s.depth(), s.depth(), 0, false},
                 {patches.data() + g * s.depth() * images * pixels, images * pixels, pixels, false}, bias != nullptr,
                 {data<T>(y) + (first * outs + g * s.out) * pixels, pixels, outs * pixels, false});
    }
  });
}

template <class T>
void backward_input(const Convolution& s, T* dx, const T* dy, const T* weight) {
  const int64_t pixels = s.out_pixels(), outs = s.out * s.params.groups;
  const Scratch<T> patches(s.channels() * s.kernel() * s.images() * pixels);
  for_each_range(s, [&](int64_t first, int64_t images) {
    for (int64_t g = 0; g < s.params.groups; ++g) {
      gemm<T, T>(images, s.depth(), pixels, s.out, {weight + g * s.out * s.depth(), s.depth(), 0, true},
                 {dy + (first * outs + g * s.out) * pixels, pixels, outs * pixels, false}, false,
                 {patches.data() + g * s.depth() * images * pixels, images * pixels, pixels, false});
    }
    const int64_t count = images * s.channels() * s.in_pixels();
    launch(fold<T>, blocks_for(count), kThreads, s, images, patches.data(),
           dx + first * s.channels() * s.in_pixels());
  });
}

/// The sum over a range's images and pixels is one product per group, for which dy is copied to [O, images, pixels].
template <class T>
void backward_weight(const Convolution& s, const View& dweight, const View& dy, const T* x) {
  const int64_t pixels = s.out_pixels(), outs = s.out * s.params.groups;
  const Scratch<T> patches(s.channels() * s.kernel() * s.images() * pixels), cotangents(outs * s.images() * pixels);
  for_each_range(s, [&](int64_t first, int64_t images) {
    launch(unfold<T>, blocks_for(s.channels() * s.kernel() * images * pixels), kThreads, s, images,
           x + first * s.channels() * s.in_pixels(), patches.data());
    const int64_t shape[] = {outs, images, pixels};
    const int64_t to[] = {images * pixels, pixels, 1}, from[] = {pixels, outs * pixels, 1};
    cuda_backend().copy({cotangents.data(), dy.dtype, 3, shape, to},
                        {data<T>(dy) + first * outs * pixels, dy.dtype, 3, shape, from});
    const int64_t terms = images * pixels;  // of each sum
    gemm<T, T>(s.params.groups, s.out, s.depth(), terms, {cotangents.data(), terms, s.out * terms, false},
               {patches.data(), terms, s.depth() * terms, true}, first > 0,
               {data<T>(dweight), s.depth(), s.out * s.depth(), false});
  });
}

void conv2d(View y, View x, View weight, const View* bias, const Conv2dParams& params) {
  dispatch_floating(y.dtype, [&](auto zero) {
    using T = decltype(zero);
    forward<T>({x, weight, y, params}, y, data<T>(x), data<T>(weight), bias);
  });
}

void conv2d_backward_input(View dx, View dy, View weight, const Conv2dParams& params) {
  dispatch_floating(dx.dtype, [&](auto zero) {
    using T = decltype(zero);
    backward_input<T>({dx, weight, dy, params}, data<T>(dx), data<T>(dy), data<T>(weight));
  });
}

void conv2d_backward_weight(View dweight, View dy, View x, const Conv2dParams& params) {
  dispatch_floating(dweight.dtype, [&](auto zero) {
    using T = decltype(zero);
    backward_weight<T>({x, dweight, dy, params}, dweight, dy, data<T>(x));
  });
}

}  // namespace

void fill_convolution(Backend& table) {
  table.conv2d = conv2d;
  table.conv2d_backward_input = conv2d_backward_input;
  table.conv2d_backward_weight = conv2d_backward_weight;
}

}  // namespace linnet::cuda
