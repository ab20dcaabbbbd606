#include <linnet/ops/array/vision.h>

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/indexing.h>
#include <linnet/ops/detail/windows.h>

namespace linnet {
namespace {

/// An element of the result along one dim: the weighted sum of the elements of x at `index`. Unused weights are 0.
struct Taps {
  std::array<int64_t, 4> index = {};
  std::array<double, 4> weight = {};
};

/// The weight of a neighbour at distance `d` from the place: Keys 1981, eq. 15, with a = −¾.
double cubic_weight(double d) {
  constexpr double a = -0.75;
  d = std::abs(d);
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  if (d < 2) return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return 0;
}

/// How many neighbours a mode reads along a dim.
int neighbours(InterpolateMode mode) {
  switch (mode) {
    case InterpolateMode::linear: return 2;
    case InterpolateMode::cubic: return 4;
    default: return 1;
  }
}

/// The distance of neighbouring elements of the result, in elements of x. It is a fraction, so that the place of an
/// element is rounded once.
struct Step {
  double numerator, denominator;
  double times(double i) const { return i * numerator / denominator; }
};

/// The neighbours of element `i` of the result.
Taps taps_of(int64_t i, int64_t size, const Step& step, const InterpolateOptions& options) {
  const auto inside = [size](double index) { return std::clamp(static_cast<int64_t>(index), int64_t{0}, size - 1); };
  const auto place = static_cast<double>(i);
  if (options.mode == InterpolateMode::nearest) return {{inside(std::floor(step.times(place)))}, {1}};
  if (options.mode == InterpolateMode::nearest_exact) return {{inside(std::floor(step.times(place + 0.5)))}, {1}};
  double source = options.align_corners ? step.times(place) : step.times(place + 0.5) - 0.5;
  if (options.mode == InterpolateMode::linear) {
    source = std::max(source, 0.0);
    const double first = std::floor(source), share = source - first;
    return {{inside(first), inside(first + 1)}, {1 - share, share}};
  }
  const double first = std::floor(source);
  Taps taps;
  for (int t = 0; t < 4; ++t) {
    const auto at = static_cast<size_t>(t);
    taps.index[at] = inside(first + t - 1);
    taps.weight[at] = cubic_weight(source - (first + t - 1));
  }
  return taps;
}

/// The step along a dim; scale_factor is 0 if a size was given.
Step step_of(int64_t size, int64_t out, double scale_factor, const InterpolateOptions& options) {
  if (options.align_corners && out == 1) return {0, 1};
  if (options.align_corners) return {static_cast<double>(size - 1), static_cast<double>(out - 1)};
  if (scale_factor > 0) return {1, scale_factor};
  return {static_cast<double>(size), static_cast<double>(out)};
}

/// x resized to `out` elements along `dim`.
Tensor resized(const Tensor& x, int dim, int64_t out, const Step& step, const InterpolateOptions& options) {
  const int count = neighbours(options.mode);
  std::vector<std::vector<int64_t>> indices(static_cast<size_t>(count));
  std::vector<std::vector<double>> weights(static_cast<size_t>(count));
  for (int64_t i = 0; i < out; ++i) {
    const Taps taps = taps_of(i, x.shape()[dim], step, options);
    for (size_t t = 0; t < indices.size(); ++t) {
      indices[t].push_back(taps.index[t]);
      weights[t].push_back(taps.weight[t]);
    }
  }
  Shape along = Shape::filled(x.rank(), 1);
  along[dim] = out;
  Tensor sum;
  for (size_t t = 0; t < indices.size(); ++t) {
    const Tensor neighbour = detail::select_slices(x, dim, Recording::constant(tensor(indices[t]), x.device()));
    if (count == 1) return neighbour;
    const Tensor weight = Recording::constant(tensor(weights[t]).to(x.dtype()), x.device()).reshape(along);
    sum = t == 0 ? neighbour * weight : sum + neighbour * weight;
  }
  return sum;
}

/// The numbers of an option for `dims` dims: one number is for all of them.
template <class T>
std::vector<T> for_each_dim(const std::vector<T>& numbers, size_t dims, const char* name) {
  if (numbers.size() == 1) return std::vector<T>(dims, numbers[0]);
  if (numbers.size() == dims) return numbers;
  throw ValueError(fmt::format("{} {{{}}} has {} numbers; 1 or {} are needed, for the dims after [B, C]", name,
                               fmt::join(numbers, ", "), numbers.size(), dims));
}

void check_interpolate(const Tensor& x, const InterpolateOptions& options) {
  const bool has_elements = x.rank() >= 3 && std::ranges::count(x.shape().begin() + 2, x.shape().end(), 0) == 0;
  if (!has_elements) {
    throw ShapeError(fmt::format("x{} must be [B, C, ...] with one dim or more after [B, C], of size 1 or more",
                                 to_string(x.shape())));
  }
  if (options.size.empty() == options.scale_factor.empty()) {
    throw ValueError("either size or scale_factor is needed, as in interpolate(x, {.scale_factor = {2}})");
  }
  const bool is_nearest = neighbours(options.mode) == 1;
  if (options.align_corners && is_nearest) throw ValueError("align_corners is for the modes linear and cubic");
  if (!is_nearest) detail::check_floating(x.dtype());
  for (const int64_t size : options.size) {
    if (size >= 1 && size <= INT32_MAX) continue;
    throw ValueError(fmt::format("size contains {}; from 1 to {} are possible", size, INT32_MAX));
  }
  for (const double factor : options.scale_factor) {
    if (!(factor > 0) || std::isinf(factor)) {
      throw ValueError(fmt::format("scale_factor contains {}; a finite number above 0 is needed", factor));
    }
  }
}

void check_image(const Tensor& x, int64_t factor) {
  if (x.rank() != 4) throw ShapeError(fmt::format("x{} must be [B, C, H, W]", to_string(x.shape())));
  detail::check_at_least("the factor", factor, 1);
}

/// ⌊size·scale_factor⌋
int64_t scaled(int64_t size, double scale_factor, const Shape& shape) {
  const double out = std::floor(static_cast<double>(size) * scale_factor);
  if (out >= 1 && out < 0x1p31) return static_cast<int64_t>(out);
  throw ValueError(fmt::format("a scale_factor of {} leaves {} elements of x{}", scale_factor,
                               out < 1 ? "no" : "too many", to_string(shape)));
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options, Where where) {
  const Call call("interpolate", where);
  check_interpolate(x, options);
  const auto dims = static_cast<size_t>(x.rank() - 2);
  std::vector<double> factors(dims, 0);
  std::vector<int64_t> sizes(dims);
  if (options.size.empty()) {
    factors = for_each_dim(options.scale_factor, dims, "scale_factor");
    for (size_t i = 0; i < dims; ++i) {
      sizes[i] = scaled(x.shape()[static_cast<int>(i) + 2], factors[i], x.shape());
    }
  } else {
    sizes = for_each_dim(options.size, dims, "size");
  }
  const bool is_nearest = neighbours(options.mode) == 1;
  Tensor out = is_nearest ? x : detail::in_computed(x);  // a bfloat16 is rounded once
  bool is_resized = false;
  for (size_t i = 0; i < dims; ++i) {
    const int dim = static_cast<int>(i) + 2;
    // As in PyTorch, a dim that keeps its size keeps its elements: 0 times an infinite neighbour would be NaN.
    if (options.mode == InterpolateMode::linear && sizes[i] == x.shape()[dim]) continue;
    out = resized(out, dim, sizes[i], step_of(x.shape()[dim], sizes[i], factors[i], options), options);
    is_resized = true;
  }
  return is_resized ? out.to(x.dtype()) : x.clone();
}

Tensor pixel_shuffle(const Tensor& x, int64_t upscale_factor, Where where) {
  const Call call("pixel_shuffle", where);
  check_image(x, upscale_factor);
  const int64_t r = upscale_factor, channels = x.size(1) / (r * r);
  if (channels * r * r != x.size(1)) {
    throw ShapeError(
        fmt::format("the {} channels of x{} are not a multiple of {}²", x.size(1), to_string(x.shape()), r));
  }
  const Tensor parts = x.reshape({x.size(0), channels, r, r, x.size(2), x.size(3)});
  return parts.permute({0, 1, 4, 2, 5, 3}).reshape({x.size(0), channels, x.size(2) * r, x.size(3) * r});
}

Tensor pixel_unshuffle(const Tensor& x, int64_t downscale_factor, Where where) {
  const Call call("pixel_unshuffle", where);
  check_image(x, downscale_factor);
  const int64_t r = downscale_factor, height = x.size(2) / r, width = x.size(3) / r;
  if (height * r != x.size(2) || width * r != x.size(3)) {
    throw ShapeError(fmt::format("the height and width of x{} are not multiples of {}", to_string(x.shape()), r));
  }
  const Tensor parts = x.reshape({x.size(0), x.size(1), height, r, width, r});
  return parts.permute({0, 1, 3, 5, 2, 4}).reshape({x.size(0), x.size(1) * r * r, height, width});
}

}  // namespace linnet
