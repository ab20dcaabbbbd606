#include <linnet/ops/layers/pooling.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/indexing.h>
#include <linnet/ops/detail/windows.h>

namespace linnet {
namespace {

/// Checks that a window does not have all its taps in the padding. A dilation beyond the size lets two taps, one on
/// each side, step over all pixels; with more taps the kernel would not fit.
void check_some_pixel(int64_t size, int64_t padding, int64_t dilation) {
  if (padding == 0 || dilation <= size) return;
  throw ShapeError(
      fmt::format("a window sees only padding, because its taps, {} apart, step over all {} pixels: the "
                  "dilation must be at most {}",
                  dilation, size, size));
}

/// Checks the arguments, and returns the height and width of the result.
Size2d check_pooling(const Tensor& x, const char* layout, int rank, const Pool2dParams& p) {
  if (x.rank() != rank) {
    throw ShapeError(fmt::format("x{} must be {}{}", to_string(x.shape()), layout,
                                 x.rank() == rank - 1 ? "; unsqueeze(0) makes a batch of one" : ""));
  }
  for (int d = 2; d < rank; ++d) {
    if (x.size(d) == 0) throw ShapeError(fmt::format("x{} has no pixels", to_string(x.shape())));
  }
  const Size2d kernel(p.kernel[0], p.kernel[1]), padding(p.padding[0], p.padding[1]);
  detail::check_at_least("kernel", kernel, 1);
  detail::check_at_least("stride", {p.stride[0], p.stride[1]}, 1);
  detail::check_at_least("padding", padding, 0);
  detail::check_at_least("dilation", {p.dilation[0], p.dilation[1]}, 1);
  if (kernel.height * kernel.width > INT32_MAX) {
    throw ValueError(
        fmt::format("a kernel of ({}, {}) has more than {} pixels", kernel.height, kernel.width, INT32_MAX));
  }
  if (padding.height > kernel.height / 2 || padding.width > kernel.width / 2) {
    throw ValueError(
        fmt::format("padding ({}, {}) must be at most half of the kernel ({}, {}), or a window may see no pixel",
                    padding.height, padding.width, kernel.height, kernel.width));
  }
  const int64_t height = rank == 4 ? x.size(2) : 1;
  const Size2d out(detail::windows(height, kernel.height, p.stride[0], 2 * padding.height, p.dilation[0]),
                   detail::windows(x.size(-1), kernel.width, p.stride[1], 2 * padding.width, p.dilation[1]));
  check_some_pixel(height, p.padding[0], p.dilation[0]);
  check_some_pixel(x.size(-1), p.padding[1], p.dilation[1]);
  return out;
}

/// The means of adaptive windows along `dim`.
Tensor averaged(const Tensor& x, int dim, int64_t windows) {
  const int64_t size = x.size(dim);
  std::vector<Tensor> means;
  for (int64_t i = 0; i < windows; ++i) {
    const int64_t begin = i * size / windows, end = ((i + 1) * size + windows - 1) / windows;
    means.push_back(mean(x.narrow(dim, begin, end - begin), {dim}, true));
  }
  return concat(means, dim);
}

Pool2dParams params_of(const Size2d& kernel, const Pool2dOptions& options) {
  const Size2d stride = options.stride.value_or(kernel);
  return {{kernel.height, kernel.width},
          {stride.height, stride.width},
          {options.padding.height, options.padding.width},
          {options.dilation.height, options.dilation.width}};
}

Pool2dParams params_of(int64_t kernel, const Pool1dOptions& options) {
  detail::check_at_least("kernel", kernel, 1);
  detail::check_at_least("stride", options.stride.value_or(kernel), 1);
  detail::check_at_least("padding", options.padding, 0);
  detail::check_at_least("dilation", options.dilation, 1);
  return {{1, kernel}, {1, options.stride.value_or(kernel)}, {0, options.padding}, {1, options.dilation}};
}

/// The largest numbers of x [B, C, H, W].
Tensor max_pool(const char* name, Where where, const Tensor& x, const Size2d& out, const Pool2dParams& params) {
  Op op(name, where, {x});
  op.floating_dtype();
  const Shape shape{x.size(0), x.size(1), out.height, out.width};
  const Tensor y = Tensor::empty(shape, x.dtype(), x.device()), input = detail::dense(x);
  const Tensor places = Tensor::empty(shape, DType::int64, x.device());
  if (y.numel() > 0) {
    backend(x).max_pool2d(detail::view(y), detail::view(places), detail::view(input), params);
  }
  return op.record(y, [places = op.save(places), shape = x.shape()](const Tensor& g) {
    const int64_t planes = shape[0] * shape[1], windows = g.size(2) * g.size(3);
    const Tensor zero = zeros({planes, shape[2] * shape[3]}, g.dtype(), g.device());
    const Tensor index = places().reshape({planes, windows});
    return Grads{detail::scatter_add_elements(zero, 1, index, g.reshape({planes, windows})).reshape(shape)};
  });
}

/// The means of x [B, C, H, W], as a convolution of each channel with equal weights.
Tensor avg_pool(const Tensor& x, const Pool2dParams& p) {
  detail::check_floating(x.dtype());
  if (p.dilation[0] != 1 || p.dilation[1] != 1) throw ValueError("a mean takes no dilation; leave the option out");
  const Tensor weight = full({1, 1, p.kernel[0], p.kernel[1]}, 1.0 / static_cast<double>(p.kernel[0] * p.kernel[1]),
                             x.dtype(), x.device());
  const Tensor planes = x.reshape({x.size(0) * x.size(1), 1, x.size(2), x.size(3)});
  const Tensor means =
      conv2d(planes, weight, {}, {.stride = {p.stride[0], p.stride[1]}, .padding = {p.padding[0], p.padding[1]}});
  return means.reshape({x.size(0), x.size(1), means.size(2), means.size(3)});
}

}  // namespace

Tensor max_pool2d(const Tensor& x, const Size2d& kernel, const Pool2dOptions& options, Where where) {
  const Call call("max_pool2d", where);
  const Pool2dParams params = params_of(kernel, options);
  return max_pool("max_pool2d", where, x, check_pooling(x, "[B, C, H, W]", 4, params), params);
}

Tensor avg_pool2d(const Tensor& x, const Size2d& kernel, const Pool2dOptions& options, Where where) {
  const Call call("avg_pool2d", where);
  const Pool2dParams params = params_of(kernel, options);
  check_pooling(x, "[B, C, H, W]", 4, params);
  return avg_pool(x, params);
}

Tensor max_pool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options, Where where) {
  const Call call("max_pool1d", where);
  const Pool2dParams params = params_of(kernel, options);
  const Size2d out = check_pooling(x, "[B, C, L]", 3, params);
  return max_pool("max_pool1d", where, x.unsqueeze(2), out, params).squeeze(2);
}

Tensor avg_pool1d(const Tensor& x, int64_t kernel, const Pool1dOptions& options, Where where) {
  const Call call("avg_pool1d", where);
  const Pool2dParams params = params_of(kernel, options);
  check_pooling(x, "[B, C, L]", 3, params);
  return avg_pool(x.unsqueeze(2), params).squeeze(2);
}

Tensor adaptive_avg_pool2d(const Tensor& x, const Size2d& output_size, Where where) {
  const Call call("adaptive_avg_pool2d", where);
  if (x.rank() != 4) throw ShapeError(fmt::format("x{} must be [B, C, H, W]", to_string(x.shape())));
  detail::check_at_least("output_size", output_size, 1);
  if (x.size(2) == 0 || x.size(3) == 0) throw ShapeError(fmt::format("x{} has no pixels", to_string(x.shape())));
  detail::check_floating(x.dtype());
  const Tensor rows = averaged(detail::in_computed(x), 2, output_size.height);  // a bfloat16 is rounded once
  return averaged(rows, 3, output_size.width).to(x.dtype());
}

}  // namespace linnet
