#include <algorithm>
#include <cmath>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>

/// Batch norm and group norm. Memory-bound. Sums are in double. The variance comes from sums of differences from one
/// value of the group, so that one pass is enough and a large mean costs no digits.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// For each channel the numbers of slope · (x − mean) + offset + factor · dy. The centre is the mean rounded to a T;
/// the offset makes up for the rounding.
template <class T>
struct ChannelMaps {
  const Scratch<T> numbers;
  T *slope, *centre, *offset, *factor;

  explicit ChannelMaps(int64_t channels)
      : numbers(4 * channels),
        slope(numbers.data()),
        centre(slope + channels),
        offset(centre + channels),
        factor(offset + channels) {}
  void set(int64_t r, double slope_, double mean, double offset_, double factor_) const {
    slope[r] = static_cast<T>(slope_);
    centre[r] = static_cast<T>(mean);
    offset[r] = static_cast<T>(offset_ - slope_ * (mean - static_cast<double>(centre[r])));
    factor[r] = static_cast<T>(factor_);
  }
};

/// Adds `term_a(at + i, centres[i])` to a[i], and the same of term_b to b[i], for n neighbouring channels. The terms
/// are parameters here and in sum_pixels because gcc does not vectorise a loop that reads them through a reference.
template <class A, class B>
void sum_channels(int64_t n, int64_t at, const double* centres, double* a, double* b, A term_a, B term_b) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    a[i] += term_a(at + i, centres[i]);
    b[i] += term_b(at + i, centres[i]);
  }
}

/// Adds `term_a(at + i, centre)` to a, and the same of term_b to b, for n pixels of a channel.
template <class A, class B>
void sum_pixels(int64_t n, int64_t at, double centre, double& a, double& b, A term_a, B term_b) {
  double sum_a = 0, sum_b = 0;
#pragma omp simd reduction(+ : sum_a, sum_b)
  for (int64_t i = at; i < at + n; ++i) {
    sum_a += term_a(i, centre);
    sum_b += term_b(i, centre);
  }
  a += sum_a;
  b += sum_b;
}

/// x [B, R, L] as the loops take it, divided into tasks by size alone. Loops run along the pixels of a channel. Where
/// these are few, each pixel is taken as a channel of its own, and loops run along the channels.
struct ChannelLoops {
  static constexpr int64_t kFewPixels = 16, kTile = 64, kTasks = 64;

  int64_t images, channels, pixels;
  int64_t merged;                 ///< how many of `channels` are one of x
  int64_t of_group;               ///< how many of `channels` share statistics
  int64_t width, length, splits;  ///< a task is `width` channels of `length` images

  ChannelLoops(const View& x, int64_t groups) : images(x.shape[0]), channels(x.shape[1]), pixels(x.shape[2]) {
    merged = images > 1 && pixels < kFewPixels ? pixels : 1;
    channels *= merged;
    pixels /= merged;
    of_group = channels / groups;
    width = pixels == 1 ? kTile : 1;
    length = ceil_div(images, ceil_div(kTasks, ceil_div(channels, width)));
    splits = ceil_div(images, length);
  }

  double values() const { return static_cast<double>(images * of_group * pixels); }  ///< of a group
  /// The number that `row` [C] has for channel r, or `otherwise` without a row.
  template <class T>
  double parameter(const View* row, int64_t r, double otherwise) const {
    return row == nullptr ? otherwise : static_cast<double>(data<T>(*row)[r / merged % row->shape[0]]);
  }

  /// Calls `f(split, image, first_channel, last_channel)` for the images and channels of every task.
  template <class F>
  void for_each_image(const F& f) const {
    const int64_t grain = std::max<int64_t>(1, kFineGrain / (length * width * pixels));
    parallel_for(splits * ceil_div(channels, width), grain, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t split = task % splits, first = task / splits * width, last = std::min(first + width, channels);
        const int64_t image_end = std::min((split + 1) * length, images);
        for (int64_t image = split * length; image < image_end; ++image) f(split, image, first, last);
      }
    });
  }

  /// For each channel r with centre c, the sums over its elements i of `term_a(i, c)` and `term_b(i, c)`: a[r] and
  /// b[r]. Both hold `splits` sums of each channel.
  template <class A, class B>
  void sum(const double* centres, double* a, double* b, A term_a, B term_b) const {
    std::fill_n(a, splits * channels, 0.0);
    std::fill_n(b, splits * channels, 0.0);
    for_each_image([&](int64_t split, int64_t image, int64_t first, int64_t last) {
      double *split_a = a + split * channels + first, *split_b = b + split * channels + first;
      const int64_t at = (image * channels + first) * pixels;
      if (pixels == 1) {
        sum_channels(last - first, at, centres + first, split_a, split_b, term_a, term_b);
      } else {
        sum_pixels(pixels, at, centres[first], *split_a, *split_b, term_a, term_b);
      }
    });
    for (int64_t i = channels; i < splits * channels; ++i) {
      a[i % channels] += a[i];
      b[i % channels] += b[i];
    }
  }

  /// Calls `f(i, slope, centre, offset, factor)` for each element i, with the numbers of its channel.
  template <class T, class F>
  void for_each(const ChannelMaps<T>& maps, F f) const {
    for_each_image([&](int64_t, int64_t image, int64_t first, int64_t last) {
      const T *slope = maps.slope + first, *centre = maps.centre + first, *offset = maps.offset + first,
              *factor = maps.factor + first;
      const int64_t at = (image * channels + first) * pixels;
      if (pixels == 1) {
        for_each_element(last - first, [=](int64_t i) { f(at + i, slope[i], centre[i], offset[i], factor[i]); });
      } else {
        for_each_element(
            pixels, [f, at, s = *slope, c = *centre, o = *offset, m = *factor](int64_t i) { f(at + i, s, c, o, m); });
      }
    });
  }
};

void group_moments(View mean, View variance, View x_view) {
  const ChannelLoops loops(x_view, mean.shape[0]);
  const Scratch<double> sums(loops.splits * loops.channels), squares(loops.splits * loops.channels);
  dispatch_floating(x_view.dtype, [&]<class T>(T) {
    const T* x = data<T>(x_view);
    const Scratch<double> centres(loops.channels);  // the first value of each channel's group
    for (int64_t r = 0; r < loops.channels; ++r) {
      centres[r] = static_cast<double>(x[(r - r % loops.of_group) * loops.pixels]);
    }
    const auto difference = [x](int64_t i, double centre) { return static_cast<double>(x[i]) - centre; };
    loops.sum(centres.data(), sums.data(), squares.data(), difference,
              [=](int64_t i, double centre) { return difference(i, centre) * difference(i, centre); });
    for (int64_t g = 0; g < mean.shape[0]; ++g) {
      double sum = 0, square = 0;
      for (int64_t r = g * loops.of_group; r < (g + 1) * loops.of_group; ++r) {
        sum += sums[r];
        square += squares[r];
      }
      const double offset = sum / loops.values(), var = square / loops.values() - offset * offset;
      data<double>(mean)[g] = centres[g * loops.of_group] + offset;
      data<double>(variance)[g] = var < 0 ? 0 : var + 0 * var;  // rounding may make it negative; ∞ becomes NaN
    }
  });
}

void group_norm(View y_view, View x_view, View mean, View variance, const View* weight, const View* bias,
                double eps) {
  const ChannelLoops loops(x_view, mean.shape[0]);
  dispatch_floating(x_view.dtype, [&]<class T>(T) {
    const ChannelMaps<T> maps(loops.channels);
    for (int64_t r = 0; r < loops.channels; ++r) {
      const int64_t g = r / loops.of_group;
      const double rstd = 1 / std::sqrt(data<double>(variance)[g] + eps);
      maps.set(r, loops.parameter<T>(weight, r, 1) * rstd, data<double>(mean)[g], loops.parameter<T>(bias, r, 0), 0);
    }
    loops.for_each(maps, [y = data<T>(y_view), x = data<T>(x_view)](int64_t i, T slope, T centre, T offset, T) {
      y[i] = slope * (x[i] - centre) + offset;
    });
  });
}

/// With x̂ = (x − mean)·rstd, rstd = 1/√(var + eps) and h = dy·weight, means taken over the group:
///   dx = rstd · (h − mean(h) − x̂·mean(h·x̂)), or rstd · h for fixed statistics
///   dweight = Σ dy·x̂,   dbias = Σ dy
void group_norm_backward(View dx_view, const View* dweight, const View* dbias, View dy_view, View x_view, View mean,
                         View variance, const View* weight, double eps, bool fixed) {
  const ChannelLoops loops(x_view, mean.shape[0]);
  const Scratch<double> sums(loops.splits * loops.channels), products(loops.splits * loops.channels);
  dispatch_floating(x_view.dtype, [&]<class T>(T) {
    const T *x = data<T>(x_view), *dy = data<T>(dy_view);
    const Scratch<double> means(loops.channels);
    for (int64_t r = 0; r < loops.channels; ++r) means[r] = data<double>(mean)[r / loops.of_group];
    loops.sum(
        means.data(), sums.data(), products.data(), [dy](int64_t i, double) { return static_cast<double>(dy[i]); },
        [dy, x](int64_t i, double mu) { return static_cast<double>(dy[i]) * (static_cast<double>(x[i]) - mu); });
    const ChannelMaps<T> maps(loops.channels);
    for (int64_t g = 0; g < mean.shape[0]; ++g) {
      const int64_t begin = g * loops.of_group, end = begin + loops.of_group;
      const double rstd = 1 / std::sqrt(data<double>(variance)[g] + eps);
      double h = 0, hx = 0;
      for (int64_t r = begin; r < end; ++r) {
        products[r] *= rstd;
        h += loops.parameter<T>(weight, r, 1) * sums[r] / loops.values();
        hx += loops.parameter<T>(weight, r, 1) * products[r] / loops.values();
      }
      for (int64_t r = begin; r < end; ++r) {
        maps.set(r, -rstd * rstd * hx, data<double>(mean)[g], -rstd * h, rstd * loops.parameter<T>(weight, r, 1));
      }
    }
    T* dx = data<T>(dx_view);
    if (fixed) {
      loops.for_each(maps, [dx, dy](int64_t i, T, T, T, T factor) { dx[i] = factor * dy[i]; });
    } else {
      loops.for_each(maps, [dx, dy, x](int64_t i, T slope, T centre, T offset, T factor) {
        dx[i] = factor * dy[i] + (slope * (x[i] - centre) + offset);
      });
    }
    const auto add_up = [&](const View* row, const Scratch<double>& terms) {
      for (int64_t c = 0; row != nullptr && c < row->shape[0]; ++c) {
        double total = 0;
        for (int64_t r = c * loops.merged; r < loops.channels; r += row->shape[0] * loops.merged) {
          for (int64_t pixel = 0; pixel < loops.merged; ++pixel) total += terms[r + pixel];
        }
        data<T>(*row)[c] = static_cast<T>(total);
      }
    };
    add_up(dweight, products);
    add_up(dbias, sums);
  });
}

}  // namespace

void fill_batch_norm(Backend& table) {
  table.group_moments = group_moments;
  table.group_norm = group_norm;
  table.group_norm_backward = group_norm_backward;
}

}  // namespace linnet::cpu::LINNET_ISA
