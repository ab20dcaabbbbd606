#include <linnet/cuda/device/bfloat16.cuh>
#include <linnet/cuda/device/group.cuh>
#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/layers/row_split.cuh>

/// Batch norm and group norm. Memory bounds them. Sums are in double. The variance is computed from the differences
/// from one value of the group, so that one pass suffices and a large mean costs no digits. Elements have type E, and
/// weights and biases type T: float for bfloat16, otherwise E.

namespace linnet::cuda {
namespace {

using Block = ThreadGroup<kThreads>;
using Warp = ThreadGroup<kWarp>;

/// How kernels read x [B, R, L]: divided into tasks by size alone; a block takes one task at a time. Neighbouring
/// threads take the pixels of a channel. If there are few pixels, each pixel counts as a channel of its own, and
/// neighbouring threads take neighbouring channels.
struct Channels {
  static constexpr int64_t kFewPixels = 16, kTasks = 1024;

  int64_t images, channels, pixels;
  int64_t merged;                 ///< the number of `channels` that are one channel of x
  int64_t of_group;               ///< the number of `channels` that share statistics
  int64_t width, length, splits;  ///< a task is `width` channels of `length` images
  int lanes;                      ///< the threads that read neighbouring elements; groups of them take images in turn

  Channels(const View& x, int64_t groups) : images(x.shape[0]), channels(x.shape[1]), pixels(x.shape[2]) {
    merged = images > 1 && pixels < kFewPixels ? pixels : 1;
    channels *= merged;
    pixels /= merged;
    of_group = channels / groups;
    width = pixels == 1 ? kWarp : 1;
    lanes = pixels < kThreads ? kWarp : kThreads;
    length = ceil_div(images, ceil_div(kTasks, ceil_div(channels, width)));
    splits = ceil_div(images, length);
  }

  __host__ __device__ int64_t tasks() const { return splits * ceil_div(channels, width); }
  __host__ __device__ double values() const {
    return static_cast<double>(images * of_group * pixels);
  }  ///< the number of elements of a group
  /// The index of channel r in a row [C].
  __device__ int64_t parameter(int64_t r, int64_t count) const { return r / merged % count; }

  /// Calls `of_channel(r)(i)` for this thread's elements i of task `task`, which all belong to one channel r.
  template <class F>
  __device__ void for_each(int64_t task, F of_channel) const {
    const int lane = static_cast<int>(threadIdx.x) % lanes, row = static_cast<int>(threadIdx.x) / lanes;
    const int64_t split = task % splits, end = min((split + 1) * length, images);
    const int64_t r = task / splits * width + (width > 1 ? lane : 0);
    if (r >= channels) return;
    const auto f = of_channel(r);
    for (int64_t image = split * length + row; image < end; image += kThreads / lanes) {
      const int64_t at = (image * channels + r) * pixels;
      if (width > 1) {
        f(at);
      } else {
#pragma unroll 4
        for (int64_t i = lane; i < pixels; i += lanes) f(at + i);
      }
    }
  }
};

struct TwoSums {
  double first, second;
};

/// sums[split, r] = the two sums of `terms(r)(i)` over the elements i of channel r in the split.
template <class Terms>
__global__ void sum_channels(Channels c, Terms terms, TwoSums* sums) {
  __shared__ TwoSums of_thread[kThreads];
  for (int64_t task = blockIdx.x; task < c.tasks(); task += gridDim.x) {
    TwoSums sum = {0, 0};
    c.for_each(task, [&](int64_t r) {
      const auto f = terms(r);
      return [f, &sum](int64_t i) {
        const TwoSums term = f(i);
        sum.first += term.first;
        sum.second += term.second;
      };
    });
    TwoSums* const to = sums + task % c.splits * c.channels + task / c.splits * c.width;
    if (c.width == 1) {
      sum = {Block::reduce(sum.first, Plus()), Block::reduce(sum.second, Plus())};
      if (threadIdx.x == 0) *to = sum;
    } else {
      of_thread[threadIdx.x] = sum;
      __syncthreads();
      const int lane = static_cast<int>(threadIdx.x);
      if (lane < kWarp && task / c.splits * c.width + lane < c.channels) {
        for (int t = lane + kWarp; t < kThreads; t += kWarp) {
          sum.first += of_thread[t].first;
          sum.second += of_thread[t].second;
        }
        to[lane] = sum;
      }
      __syncthreads();  // before the next task overwrites of_thread
    }
  }
}

/// Calls `of_channel(r)(i)` for each element i of each channel r.
template <class F>
__global__ void for_each_element(Channels c, F of_channel) {
  for (int64_t task = blockIdx.x; task < c.tasks(); task += gridDim.x) c.for_each(task, of_channel);
}

/// The terms of the variance: differences from the first value of the group, and their squares.
template <class E>
struct Differences {
  const E* x;
  int64_t of_group, pixels;

  __device__ double centre(int64_t r) const { return static_cast<double>(x[(r - r % of_group) * pixels]); }
  __device__ auto operator()(int64_t r) const {
    return [x = x, centre = centre(r)](int64_t i) {
      const double difference = static_cast<double>(x[i]) - centre;
      return TwoSums{difference, difference * difference};
    };
  }
};

/// The mean and variance of each group, with a warp for each group.
template <class E>
__global__ void finish_moments(Channels c, int64_t groups, Differences<E> differences, const TwoSums* sums,
                               double* mean, double* variance) {
  for (int64_t g = Warp::first_row(); g < groups; g += Warp::row_step()) {
    const auto total = [&](double TwoSums::* sum) {
      return Warp::sum<double>(c.splits * c.of_group, [&](int64_t i) {
        return sums[i / c.of_group * c.channels + g * c.of_group + i % c.of_group].*sum;
      });
    };
    const double difference = total(&TwoSums::first) / c.values();
    const double var = total(&TwoSums::second) / c.values() - difference * difference;
    if (Warp::lane() != 0) continue;
    mean[g] = differences.centre(g * c.of_group) + difference;
    variance[g] = var < 0 ? 0 : var + 0 * var;  // rounding may make it negative; ∞ becomes NaN
  }
}

/// A channel's map to slope · (x − mean) + offset + factor · dy. The offset includes the error of rounding the mean
/// to T.
template <class T>
struct ChannelMap {
  T slope, centre, offset, factor;

  __device__ ChannelMap(double slope_, double mean, double offset_, double factor_ = 0)
      : slope(static_cast<T>(slope_)),
        centre(static_cast<T>(mean)),
        offset(static_cast<T>(offset_ - slope_ * (mean - static_cast<double>(centre)))),
        factor(static_cast<T>(factor_)) {}
};

/// A row [C] of weights or biases; `value` everywhere if `row` is null.
template <class T>
struct ParameterRow {
  const T* row;
  int64_t count;
  double value;

  ParameterRow(const View* view, double value_)
      : row(data<const T>(view)), count(view == nullptr ? 1 : view->shape[0]), value(value_) {}
  __device__ double at(const Channels& c, int64_t r) const {
    return row == nullptr ? value : static_cast<double>(row[c.parameter(r, count)]);
  }
};

template <class T>
__global__ void make_maps(Channels c, const double* mean, const double* variance, ParameterRow<T> weight,
                          ParameterRow<T> bias, double eps, ChannelMap<T>* maps) {
  for (int64_t r = first_item(); r < c.channels; r += item_step()) {
    const int64_t g = r / c.of_group;
    maps[r] = {weight.at(c, r) / sqrt(variance[g] + eps), mean[g], bias.at(c, r)};
  }
}

template <class E, class T>
struct Normalise {
  E* y;
  const E* x;
  const ChannelMap<T>* maps;

  __device__ auto operator()(int64_t r) const {
    return [y = y, x = x, m = maps[r]](int64_t i) {
      y[i] = static_cast<E>(m.slope * (static_cast<T>(x[i]) - m.centre) + m.offset);
    };
  }
};

/// The terms of the gradients: cotangents, and their products with differences from the mean.
template <class E>
struct Products {
  const E *dy, *x;
  const double* mean;
  int64_t of_group;

  __device__ auto operator()(int64_t r) const {
    return [dy = dy, x = x, mu = mean[r / of_group]](int64_t i) {
      const double g = static_cast<double>(dy[i]);
      return TwoSums{g, g * (static_cast<double>(x[i]) - mu)};
    };
  }
};

/// Adds up the splits' sums to totals[r] = (Σ dy, Σ dy·x̂), and computes the maps of the gradient by x, with a warp
/// for each group. With x̂ = (x − mean)·rstd, rstd = 1/√(var + eps) and h = dy·weight, and means over the group:
///   dx = rstd · (h − mean(h) − x̂·mean(h·x̂))
template <class T>
__global__ void make_backward_maps(Channels c, int64_t groups, const TwoSums* sums, const double* mean,
                                   const double* variance, ParameterRow<T> weight, double eps, TwoSums* totals,
                                   ChannelMap<T>* maps) {
  for (int64_t g = Warp::first_row(); g < groups; g += Warp::row_step()) {
    const double rstd = 1 / sqrt(variance[g] + eps);
    double h = 0, hx = 0;
    for (int64_t r = g * c.of_group + Warp::lane(); r < (g + 1) * c.of_group; r += kWarp) {
      TwoSums total = {0, 0};
      for (int64_t split = 0; split < c.splits; ++split) {
        total.first += sums[split * c.channels + r].first;
        total.second += sums[split * c.channels + r].second * rstd;
      }
      totals[r] = total;
      h += weight.at(c, r) * total.first / c.values();
      hx += weight.at(c, r) * total.second / c.values();
    }
    h = Warp::reduce(h, Plus());
    hx = Warp::reduce(hx, Plus());
    for (int64_t r = g * c.of_group + Warp::lane(); r < (g + 1) * c.of_group; r += kWarp) {
      maps[r] = {-rstd * rstd * hx, mean[g], -rstd * h, rstd * weight.at(c, r)};
    }
  }
}

template <class E, class T>
struct InputGradient {
  E* dx;
  const E *dy, *x;
  const ChannelMap<T>* maps;
  bool fixed;  ///< whether the statistics do not depend on x: then dx = rstd · h

  __device__ auto operator()(int64_t r) const {
    return [dx = dx, dy = dy, x = x, m = maps[r], fixed = fixed](int64_t i) {
      const T through_statistics = fixed ? T{0} : m.slope * (static_cast<T>(x[i]) - m.centre) + m.offset;
      dx[i] = static_cast<E>(m.factor * static_cast<T>(dy[i]) + through_statistics);
    };
  }
};

/// dweight = Σ dy·x̂ and dbias = Σ dy for each of `count` channels of x, with a warp for each; either may be null.
template <class T>
__global__ void sum_parameters(Channels c, int64_t count, const TwoSums* totals, T* dweight, T* dbias) {
  for (int64_t p = Warp::first_row(); p < count; p += Warp::row_step()) {
    const auto total = [&](double TwoSums::* sum) {
      return Warp::sum<double>(c.channels / count, [&](int64_t i) {
        return totals[(i / c.merged * count + p) * c.merged + i % c.merged].*sum;
      });
    };
    const double weight_sum = total(&TwoSums::second), bias_sum = total(&TwoSums::first);
    if (Warp::lane() != 0) continue;
    if (dweight != nullptr) dweight[p] = static_cast<T>(weight_sum);
    if (dbias != nullptr) dbias[p] = static_cast<T>(bias_sum);
  }
}

int64_t warps_for(int64_t rows) { return ceil_div(rows, Warp::rows); }

void group_moments(View mean, View variance, View x) {
  const int64_t groups = mean.shape[0];
  const Channels c(x, groups);
  const Scratch<TwoSums> sums(c.splits * c.channels);
  dispatch_computed(x.dtype, [&](auto stored, auto) {
    using E = decltype(stored);
    const Differences<E> differences{data<const E>(x), c.of_group, c.pixels};
    launch(sum_channels<Differences<E>>, c.tasks(), kThreads, c, differences, sums.data());
    launch(finish_moments<E>, warps_for(groups), kThreads, c, groups, differences, sums.data(), data<double>(mean),
           data<double>(variance));
  });
}

void group_norm(View y, View x, View mean, View variance, const View* weight, const View* bias, double eps) {
  const Channels c(x, mean.shape[0]);
  dispatch_computed(x.dtype, [&](auto stored, auto computed) {
    using E = decltype(stored);
    using T = decltype(computed);
    const Scratch<ChannelMap<T>> maps(c.channels);
    launch(make_maps<T>, blocks_for(c.channels), kThreads, c, data<const double>(mean), data<const double>(variance),
           ParameterRow<T>(weight, 1), ParameterRow<T>(bias, 0), eps, maps.data());
    launch(for_each_element<Normalise<E, T>>, c.tasks(), kThreads, c,
           Normalise<E, T>{data<E>(y), data<const E>(x), maps.data()});
  });
}

void group_norm_backward(View dx, const View* dweight, const View* dbias, View dy, View x, View mean, View variance,
                         const View* weight, double eps, bool fixed) {
  const int64_t groups = mean.shape[0];
  const Channels c(x, groups);
  const Scratch<TwoSums> sums(c.splits * c.channels), totals(c.channels);
  dispatch_computed(x.dtype, [&](auto stored, auto computed) {
    using E = decltype(stored);
    using T = decltype(computed);
    const Scratch<ChannelMap<T>> maps(c.channels);
    launch(sum_channels<Products<E>>, c.tasks(), kThreads, c,
           Products<E>{data<const E>(dy), data<const E>(x), data<const double>(mean), c.of_group}, sums.data());
    launch(make_backward_maps<T>, warps_for(groups), kThreads, c, groups, sums.data(), data<const double>(mean),
           data<const double>(variance), ParameterRow<T>(weight, 1), eps, totals.data(), maps.data());
    launch(for_each_element<InputGradient<E, T>>, c.tasks(), kThreads, c,
           InputGradient<E, T>{data<E>(dx), data<const E>(dy), data<const E>(x), maps.data(), fixed});
    if (dweight == nullptr && dbias == nullptr) return;
    const int64_t count = (dweight != nullptr ? dweight : dbias)->shape[0];
    launch(sum_parameters<T>, warps_for(count), kThreads, c, count, totals.data(), data<T>(dweight), data<T>(dbias));
  });
}

}  // namespace

void fill_batch_norm(Backend& table) {
  table.group_moments = group_moments;
  table.group_norm = group_norm;
  table.group_norm_backward = group_norm_backward;
}

}  // namespace linnet::cuda
