#include <algorithm>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/matmul/serial_gemm.h>

/// Convolutions as matrix products. The elements that the taps of an output pixel see are a column of `patches`,
/// [C/groups · R · S, pixels], so that y = weight · patches, d patches = weightᵀ · dy and d weight = dy · patchesᵀ.
/// Patches exist for a tile of output pixels at a time, which stays in a core's cache. The pixels of all images are
/// numbered consecutively, so that a tile may cover several small images. Work is divided by size alone.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// Elements of a tile of patches: half of a cache of 1 MiB, as floats.
constexpr int64_t kTileElements = int64_t{1} << 17;
/// Enough tasks that one slow core does not delay four; the largest number of splits of the weight's gradient, and of
/// their elements.
constexpr int64_t kConvolutionTasks = 8, kConvolutionSplits = 16, kSplitElements = int64_t{1} << 22;

/// Pixels [begin, end) of one image's output, whose first one is at `column` of the tile.
struct Pixels {
  int64_t image, begin, end, column;
};

/// The sizes of a convolution; channels are those of one group.
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

  int64_t kernel() const { return taps[0] * taps[1]; }
  int64_t depth() const { return in * kernel(); }  ///< rows of `patches`
  int64_t in_pixels() const { return height * width; }
  int64_t out_pixels() const { return out_height * out_width; }
  /// Whether output pixel p sees input pixel p + shift at a tap, with one shift for all rows.
  bool has_shifts() const { return params.stride[0] == 1 && params.stride[1] == 1 && out_width == width; }
  int64_t tile_size(int64_t depth_) const {
    constexpr int64_t kUnit = packed::kWidth<float>;
    return std::max(kUnit, kTileElements / depth_ / kUnit * kUnit);
  }

  /// Offsets of image `n`, from the first channel of group `g`.
  int64_t input_at(int64_t n, int64_t g) const { return (n * params.groups + g) * in * in_pixels(); }
  int64_t output_at(int64_t n, int64_t g) const { return (n * params.groups + g) * out * out_pixels(); }
};

/// Calls `f` for each image that has pixels of [begin, end).
template <class F>
void for_each_image(const Convolution& s, int64_t begin, int64_t end, F f) {
  for (int64_t at = begin; at < end;) {
    const int64_t n = at / s.out_pixels(), first = at % s.out_pixels();
    const int64_t last = std::min(s.out_pixels(), first + end - at);
    f(Pixels{n, first, last, at - begin});
    at += last - first;
  }
}

/// The input that one tap sees along `count` output pixels: those of a row, or of many if the tap has one shift for
/// all. Pixels [first, last) with a column in [low, high) see the input, from `input` on in steps of the stride. The
/// others see padding.
struct Run {
  int64_t row, column, count, first, last, input, low, high;
};

/// Calls `f` for each run of the rows of patches of `channels` channels from `channel` on. `Run::input` is relative
/// to the first of them.
template <class F>
void for_each_run(const Convolution& s, int64_t channels, const Pixels& pixels, F f) {
  const auto& [stride, padding, dilation, groups] = s.params;
  const int64_t first_i = pixels.begin / s.out_width, first_j = pixels.begin % s.out_width;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t tap = 0; tap < s.kernel(); ++tap) {
      const int64_t row = c * s.kernel() + tap;
      const int64_t from_row = tap / s.taps[1] * dilation[0] - padding[0];
      const int64_t from_column = tap % s.taps[1] * dilation[1] - padding[1];
      // Output columns [low, high) see columns of the input.
      const int64_t low = from_column < 0 ? ceil_div(-from_column, stride[1]) : 0;
      const int64_t high = from_column < s.width ? (s.width - 1 - from_column) / stride[1] + 1 : 0;
      int64_t column = pixels.column, rest = pixels.end - pixels.begin;
      if (s.has_shifts()) {
        const int64_t begin = pixels.begin + from_row * s.width + from_column;
        const int64_t first = std::clamp<int64_t>(-begin, 0, rest);
        const int64_t last = std::clamp<int64_t>(s.in_pixels() - begin, first, rest);
        f(Run{row, column, rest, first, last, c * s.in_pixels() + begin + first, low, high});
        continue;
      }
      for (int64_t i = first_i, j = first_j; rest > 0; ++i, j = 0) {
        const int64_t count = std::min(s.out_width - j, rest);
        const int64_t input_row = i * stride[0] + from_row;
        const bool inside = input_row >= 0 && input_row < s.height;
        const int64_t first = inside ? std::clamp<int64_t>(low - j, 0, count) : 0;
        const int64_t last = inside ? std::clamp<int64_t>(high - j, first, count) : 0;
        f(Run{row, column, count, first, last,
              c * s.in_pixels() + input_row * s.width + (j + first) * stride[1] + from_column, 0, s.out_width});
        column += count;
        rest -= count;
      }
    }
  }
}

/// Clears the pixels of `run`, from `to` on, whose column is outside of [low, high).
template <class T>
void clear_padding(const Convolution& s, const Pixels& pixels, const Run& run, T* to) {
  const int64_t width = s.out_width, first_column = pixels.begin % width;
  const auto clear_columns = [&](int64_t begin, int64_t end) {
    for (int64_t column = begin; column < end; ++column) {
      const int64_t first = column - first_column + (column < first_column ? width : 0);
      for (int64_t l = first; l < run.count; l += width) to[l] = 0;
    }
  };
  clear_columns(0, std::min(run.low, width));
  clear_columns(run.high, width);
}

/// Fills `patches` from the input's `channels` channels from x on.
template <class T>
void unfold(const Convolution& s, int64_t channels, const Pixels& pixels, const T* x, Rows<T> patches) {
  const int64_t stride = s.params.stride[1];
  for_each_run(s, channels, pixels, [&](const Run& run) {
    T* to = patches[run.row] + run.column;
    const T* from = x + run.input;
    for (int64_t l = 0; l < run.first; ++l) to[l] = 0;
    if (stride == 1) {
#pragma omp simd
      for (int64_t l = run.first; l < run.last; ++l) to[l] = from[l - run.first];
    } else {
      for (int64_t l = run.first; l < run.last; ++l) to[l] = from[(l - run.first) * stride];
    }
    for (int64_t l = run.last; l < run.count; ++l) to[l] = 0;
    clear_padding(s, pixels, run, to);
  });
}

/// Adds `patches` to the places from which `unfold` reads them. Clears those that are padding.
template <class T>
void fold(const Convolution& s, int64_t channels, const Pixels& pixels, Rows<T> patches, T* x) {
  const int64_t stride = s.params.stride[1];
  for_each_run(s, channels, pixels, [&](const Run& run) {
    clear_padding(s, pixels, run, patches[run.row] + run.column);
    const T* from = patches[run.row] + run.column + run.first;
    T* to = x + run.input;
    if (stride == 1) {
#pragma omp simd
      for (int64_t l = 0; l < run.last - run.first; ++l) to[l] += from[l];
    } else {
      for (int64_t l = 0; l < run.last - run.first; ++l) to[l * stride] += from[l];
    }
  });
}

/// Output pixels [begin, end) of a group as a matrix [out, pixels]: in place within an image, otherwise copied.
template <class T>
Matrix<T> output_matrix(const Convolution& s, int64_t group, int64_t begin, int64_t end, const T* y, T* copy) {
  const int64_t count = end - begin, n = begin / s.out_pixels();
  if (n == (end - 1) / s.out_pixels()) {
    return {y + s.output_at(n, group) + begin % s.out_pixels(), s.out_pixels(), 1};
  }
  for_each_image(s, begin, end, [&](const Pixels& pixels) {
    const T* from = y + s.output_at(pixels.image, group) + pixels.begin;
    for (int64_t o = 0; o < s.out; ++o) {
      std::copy_n(from + o * s.out_pixels(), pixels.end - pixels.begin, copy + o * count + pixels.column);
    }
  });
  return {copy, count, 1};
}

/// Splits [0, total) into pieces of at least `least`. With `tasks` tasks for each, they make kConvolutionTasks tasks
/// if `total` allows it.
product::EvenSplit split_channels(int64_t total, int64_t least, int64_t tasks) {
  const int64_t pieces =
      std::clamp<int64_t>(ceil_div(kConvolutionTasks, tasks), 1, std::max<int64_t>(total / least, 1));
  return {total, ceil_div(total, pieces)};
}

template <class T>
void forward(const Convolution& s, T* y, const T* x, const T* weight, const T* bias) {
  const int64_t total = s.batch * s.out_pixels(), depth = s.depth();
  const int64_t tile = std::min(s.tile_size(depth), total), tiles = ceil_div(total, tile);
  const product::EvenSplit outs = split_channels(s.out, kThinRows, tiles * s.params.groups);
  parallel_tasks(tiles * s.params.groups * outs.count, [&](int64_t task) {
    const int64_t piece = task % outs.count, group = task / outs.count % s.params.groups;
    const int64_t begin = task / outs.count / s.params.groups * tile, end = std::min(total, begin + tile);
    const int64_t first = outs.begin(piece), rows = outs.size(piece), count = end - begin;
    const Scratch<T> patches(depth * count), sums(rows * count);
    for_each_image(s, begin, end, [&](const Pixels& pixels) {
      unfold<T>(s, s.in, pixels, x + s.input_at(pixels.image, group), {patches.data(), count});
    });
    serial_gemm<T>(rows, count, depth, {weight + (group * s.out + first) * depth, depth, 1},
                   {patches.data(), count, 1}, {nullptr, 0}, {sums.data(), count});
    for_each_image(s, begin, end, [&](const Pixels& pixels) {
      for (int64_t o = 0; o < rows; ++o) {
        const T* from = sums.data() + o * count + pixels.column;
        T* to = y + s.output_at(pixels.image, group) + (first + o) * s.out_pixels() + pixels.begin;
        const T offset = bias != nullptr ? bias[group * s.out + first + o] : T{0};
#pragma omp simd
        for (int64_t p = 0; p < pixels.end - pixels.begin; ++p) to[p] = from[p] + offset;
      }
    });
  });
}

/// Tiles overlap in dx, so a task has whole images, and some of the input's channels.
template <class T>
void backward_input(const Convolution& s, T* dx, const T* dy, const T* weight) {
  const int64_t images = std::clamp<int64_t>(s.tile_size(s.depth()) / s.out_pixels(), 1, s.batch);
  const int64_t ranges = ceil_div(s.batch, images);
  const product::EvenSplit ins = split_channels(s.in, 1, ranges * s.params.groups);
  parallel_tasks(ranges * s.params.groups * ins.count, [&](int64_t task) {
    const int64_t piece = task % ins.count, group = task / ins.count % s.params.groups;
    const int64_t image = task / ins.count / s.params.groups * images, last = std::min(s.batch, image + images);
    const int64_t channel = ins.begin(piece), channels = ins.size(piece), depth = channels * s.kernel();
    for (int64_t n = image; n < last; ++n) {
      std::fill_n(dx + s.input_at(n, group) + channel * s.in_pixels(), channels * s.in_pixels(), T{0});
    }
    const int64_t tile = std::min(s.tile_size(depth), (last - image) * s.out_pixels());
    const Scratch<T> patches(depth * tile), copy(s.out * tile);
    for (int64_t begin = image * s.out_pixels(); begin < last * s.out_pixels(); begin += tile) {
      const int64_t end = std::min(last * s.out_pixels(), begin + tile), count = end - begin;
      const T* from = weight + group * s.out * s.depth() + channel * s.kernel();
      serial_gemm<T>(depth, count, s.out, {from, 1, s.depth()}, output_matrix(s, group, begin, end, dy, copy.data()),
                     {nullptr, 0}, {patches.data(), count});
      for_each_image(s, begin, end, [&](const Pixels& pixels) {
        fold<T>(s, channels, pixels, {patches.data(), count},
                dx + s.input_at(pixels.image, group) + channel * s.in_pixels());
      });
    }
  });
}

/// The sum over pixels is split by size; the splits' results are added in order.
template <class T>
void backward_weight(const Convolution& s, T* dweight, const T* dy, const T* x) {
  const int64_t total = s.batch * s.out_pixels(), size = s.params.groups * s.out * s.depth();
  const int64_t tile = std::min(s.tile_size(s.depth()), total), tiles = ceil_div(total, tile);
  const int64_t most_splits = std::clamp<int64_t>(kSplitElements / size, 1, kConvolutionSplits);
  const product::EvenSplit splits(tiles, ceil_div(tiles, most_splits));
  const product::EvenSplit ins = split_channels(s.in, 1, splits.count * s.params.groups);
  const Scratch<T> others((splits.count - 1) * size);
  parallel_tasks(splits.count * s.params.groups * ins.count, [&](int64_t task) {
    const int64_t piece = task % ins.count, group = task / ins.count % s.params.groups;
    const int64_t split = task / ins.count / s.params.groups;
    const int64_t channel = ins.begin(piece), channels = ins.size(piece), depth = channels * s.kernel();
    const Scratch<T> patches(depth * tile), copy(s.out * tile), sums(2 * s.out * depth);
    T *sum = sums.data(), *next = sum + s.out * depth;
    for (int64_t i = 0; i < splits.size(split); ++i) {
      const int64_t begin = (splits.begin(split) + i) * tile, end = std::min(total, begin + tile),
                    count = end - begin;
      for_each_image(s, begin, end, [&](const Pixels& pixels) {
        unfold<T>(s, channels, pixels, x + s.input_at(pixels.image, group) + channel * s.in_pixels(),
                  {patches.data(), count});
      });
      serial_gemm<T>(s.out, depth, count, output_matrix(s, group, begin, end, dy, copy.data()),
                     {patches.data(), 1, count}, {i == 0 ? nullptr : sum, depth}, {next, depth});
      std::swap(sum, next);
    }
    T* to = split == 0 ? dweight : others.data() + (split - 1) * size;
    for (int64_t o = 0; o < s.out; ++o) {
      std::copy_n(sum + o * depth, depth, to + (group * s.out + o) * s.depth() + channel * s.kernel());
    }
  });
  parallel_for(size, std::max<int64_t>(1, kGrain / splits.count), [&](int64_t begin, int64_t end) {
    for (int64_t split = 1; split < splits.count; ++split) {
      const T* added = others.data() + (split - 1) * size;
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) dweight[i] += added[i];
    }
  });
}

void conv2d(View y, View x, View weight, const View* bias, const Conv2dParams& params) {
  dispatch_floating(y.dtype, [&]<class T>(T) {
    forward<T>({x, weight, y, params}, data<T>(y), data<T>(x), data<T>(weight),
               bias != nullptr ? data<T>(*bias) : nullptr);
  });
}

void conv2d_backward_input(View dx, View dy, View weight, const Conv2dParams& params) {
  dispatch_floating(dx.dtype, [&]<class T>(T) {
    backward_input<T>({dx, weight, dy, params}, data<T>(dx), data<T>(dy), data<T>(weight));
  });
}

void conv2d_backward_weight(View dweight, View dy, View x, const Conv2dParams& params) {
  dispatch_floating(dweight.dtype, [&]<class T>(T) {
    backward_weight<T>({x, dweight, dy, params}, data<T>(dweight), data<T>(dy), data<T>(x));
  });
}

}  // namespace

void fill_convolution(Backend& table) {
  table.conv2d = conv2d;
  table.conv2d_backward_input = conv2d_backward_input;
  table.conv2d_backward_weight = conv2d_backward_weight;
}

}  // namespace linnet::cpu::LINNET_ISA
