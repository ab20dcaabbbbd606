#include <algorithm>
#include <cmath>
#include <utility>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>

/// Batch norm and group norm. Memory bounds them. Sums are in double, and those of the variance are of differences
/// from a value of the group, so that one pass gives it and a large mean costs no digits.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// x [B, R, L] as the loops take it, divided into tasks by size alone. Loops run along the pixels of a channel. Where
/// these are few, each pixel is taken as a channel of its own, and loops run along the channels.
struct ChannelLoops {
  static constexpr int64_t kFewPixels = 16, kTile = 64, kTasks = 128;

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

  /// Calls `of_channel(r)(i)` for each element i of each channel r.
  template <class F>
  void for_each(const F& of_channel) const {
    for_each_image([&](int64_t, int64_t image, int64_t first, int64_t last) {
      if (pixels == 1) {
#pragma omp simd
        for (int64_t r = first; r < last; ++r) of_channel(r)(image * channels + r);
      } else {
        for_each_element(pixels,
                         [f = of_channel(first), at = (image * channels + first) * pixels](int64_t i) { f(at + i); });
      }
    });
  }

  /// For each channel r, the sums over its elements i of the pair `of_channel(r)(i)`: a[r] and b[r]. Both have room
  /// for `splits` sums of each channel.
  template <class F>
  void sum(double* a, double* b, const F& of_channel) const {
    std::fill_n(a, splits * channels, 0.0);
    std::fill_n(b, splits * channels, 0.0);
    for_each_image([&](int64_t split, int64_t image, int64_t first, int64_t last) {
      double *split_a = a + split * channels, *split_b = b + split * channels;
      if (pixels == 1) {
#pragma omp simd
        for (int64_t r = first; r < last; ++r) {
          const auto [term_a, term_b] = of_channel(r)(image * channels + r);
          split_a[r] += term_a;
          split_b[r] += term_b;
        }
      } else {
        const auto f = of_channel(first);
        const int64_t at = (image * channels + first) * pixels;
        double sum_a = 0, sum_b = 0;
#pragma omp simd reduction(+ : sum_a, sum_b)
        for (int64_t i = at; i < at + pixels; ++i) {
          const auto [term_a, term_b] = f(i);
          sum_a += term_a;
          sum_b += term_b;
        }
        split_a[first] += sum_a;
        split_b[first] += sum_b;
      }
    });
    for (int64_t i = channels; i < splits * channels; ++i) {
      a[i % channels] += a[i];
      b[i % channels] += b[i];
    }
  }
};

/// A channel's map to slope · (x − mean) + offset + factor · dy. The offset takes over what rounding the mean to a T
/// leaves of it.
template <class T>
struct ChannelMap {
  T slope, centre, offset, factor;

  ChannelMap(double slope_, double mean, double offset_, double factor_ = 0)
      : slope(static_cast<T>(slope_)),
        centre(static_cast<T>(mean)),
        offset(static_cast<T>(offset_ - slope_ * (mean - static_cast<double>(centre)))),
        factor(static_cast<T>(factor_)) {}
};

void group_moments(View mean, View variance, View x_view) {
  const ChannelLoops loops(x_view, mean.shape[0]);
  const Scratch<double> sums(loops.splits * loops.channels), squares(loops.splits * loops.channels);
  dispatch_floating(x_view.dtype, [&]<class T>(T) {
    const T* x = data<T>(x_view);
    const Scratch<double> centres(loops.channels);  // the first value of each one's group
    for (int64_t r = 0; r < loops.channels; ++r) {
      centres[r] = static_cast<double>(x[(r - r % loops.of_group) * loops.pixels]);
    }
    loops.sum(sums.data(), squares.data(), [x, centres = centres.data()](int64_t r) {
      return [x, centre = centres[r]](int64_t i) {
        const double difference = static_cast<double>(x[i]) - centre;
        return std::pair(difference, difference * difference);
      };
    });
    for (int64_t g = 0; g < mean.shape[0]; ++g) {
      double sum = 0, square = 0;
      for (int64_t r = g * loops.of_group; r < (g + 1) * loops.of_group; ++r) {
        sum += sums[r];
        square += squares[r];
      }
      const double difference = sum / loops.values();
      const double var = square / loops.values() - difference * difference;
      data<double>(mean)[g] = centres[g * loops.of_group] + difference;
      data<double>(variance)[g] = var < 0 ? 0 : var;  // rounding may make it negative; a NaN stays
    }
  });
}

void group_norm(View y_view, View x_view, View mean, View variance, const View* weight, const View* bias,
                double eps) {
  const ChannelLoops loops(x_view, mean.shape[0]);
  dispatch_floating(x_view.dtype, [&]<class T>(T) {
    const Scratch<ChannelMap<T>> maps(loops.channels);
    for (int64_t r = 0; r < loops.channels; ++r) {
      const int64_t g = r / loops.of_group;
      const double rstd = 1 / std::sqrt(data<double>(variance)[g] + eps);
      maps[r] = {loops.parameter<T>(weight, r, 1) * rstd, data<double>(mean)[g], loops.parameter<T>(bias, r, 0)};
    }
    loops.for_each([y = data<T>(y_view), x = data<T>(x_view), maps = maps.data()](int64_t r) {
      return [y, x, m = maps[r]](int64_t i) { y[i] = m.slope * (x[i] - m.centre) + m.offset; };
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
    loops.sum(sums.data(), products.data(), [x, dy, means = means.data()](int64_t r) {
      return [x, dy, mu = means[r]](int64_t i) {
        const double g = static_cast<double>(dy[i]);
        return std::pair(g, g * (static_cast<double>(x[i]) - mu));
      };
    });
    const Scratch<ChannelMap<T>> maps(loops.channels);
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
        maps[r] = {-rstd * rstd * hx, data<double>(mean)[g], -rstd * h, rstd * loops.parameter<T>(weight, r, 1)};
      }
    }
    T* dx = data<T>(dx_view);
    if (fixed) {
      loops.for_each([=, maps = maps.data()](int64_t r) {
        return [dx, dy, factor = maps[r].factor](int64_t i) { dx[i] = factor * dy[i]; };
      });
    } else {
      loops.for_each([=, maps = maps.data()](int64_t r) {
        return [dx, dy, x, m = maps[r]](int64_t i) {
          dx[i] = m.factor * dy[i] + (m.slope * (x[i] - m.centre) + m.offset);
        };
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
