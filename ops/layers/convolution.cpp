#include <linnet/ops/layers/convolution.h>

#include <algorithm>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/windows.h>

/// A convolution y(x, w) is linear in the input x and in the weight w. With x̄(g, w) and w̄(g, x), the gradients of
/// Σ g·y by x and by w, there are three maps, each linear in both of its arguments, and Σ g·y(x, w) = Σ x·x̄(g, w) =
/// Σ w·w̄(g, x). So the derivatives of each are the other two, and all are differentiable any number of times.

namespace linnet {
namespace {

/// Shared by the three maps: the shapes of x and w, and how x is read.
struct ConvolutionShape {
  Shape input, weight;
  Conv2dParams params;
};

using detail::dense;

Tensor make(const Shape& shape, const Tensor& like) { return Tensor::empty(shape, like.dtype(), like.device()); }

Tensor input_gradient(const char* name, Where where, const Tensor& g, const Tensor& weight,
                      const ConvolutionShape& s);
Tensor weight_gradient(const Tensor& g, const Tensor& x, const ConvolutionShape& s);

/// y(x, w) + bias
Tensor convolve(const char* name, Where where, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const Shape& output, const ConvolutionShape& s) {
  Op op(name, where, {x, weight, bias});
  op.floating_dtype();
  const Tensor y = make(output, x), input = dense(x), factors = dense(weight);
  const detail::OptionalView offsets(dense(bias));
  if (y.numel() > 0) {
    backend(x).conv2d(detail::view(y), detail::view(input), detail::view(factors), offsets.get(), s.params);
  }
  return op.record(y, [x = op.save(x), weight = op.save(weight), needs_input = op.needs_grad(0),
                       needs_weight = op.needs_grad(1), needs_bias = op.needs_grad(2), s](const Tensor& g) {
    return Grads{needs_input ? input_gradient("conv2d_backward_input", Where{}, g, weight(), s) : Tensor(),
                 needs_weight ? weight_gradient(g, x(), s) : Tensor(), needs_bias ? sum(g, {0, 2, 3}) : Tensor()};
  });
}

/// x̄(g, w)
Tensor input_gradient(const char* name, Where where, const Tensor& g, const Tensor& weight,
                      const ConvolutionShape& s) {
  Op op(name, where, {g, weight});
  op.floating_dtype();
  const Tensor dx = make(s.input, g), cotangent = dense(g), factors = dense(weight);
  if (g.numel() > 0) {
    backend(g).conv2d_backward_input(detail::view(dx), detail::view(cotangent), detail::view(factors), s.params);
  }
  return op.record(dx, [g = op.save(g), weight = op.save(weight), needs_g = op.needs_grad(0),
                        needs_weight = op.needs_grad(1), s](const Tensor& h) {
    return Grads{needs_g ? convolve("conv2d", Where{}, h, weight(), {}, g().shape(), s) : Tensor(),
                 needs_weight ? weight_gradient(g(), h, s) : Tensor()};
  });
}

/// w̄(g, x)
Tensor weight_gradient(const Tensor& g, const Tensor& x, const ConvolutionShape& s) {
  Op op("conv2d_backward_weight", Where{}, {g, x});
  Tensor dweight = make(s.weight, g);
  const Tensor cotangent = dense(g), input = dense(x);
  if (g.numel() > 0) {
    backend(g).conv2d_backward_weight(detail::view(dweight), detail::view(cotangent), detail::view(input), s.params);
  } else {
    dweight.fill_(0);
  }
  return op.record(dweight, [g = op.save(g), x = op.save(x), needs_g = op.needs_grad(0), needs_x = op.needs_grad(1),
                             s](const Tensor& h) {
    return Grads{needs_g ? convolve("conv2d", Where{}, x(), h, {}, g().shape(), s) : Tensor(),
                 needs_x ? input_gradient("conv2d_backward_input", Where{}, g(), h, s) : Tensor()};
  });
}

// ---- Arguments ----

/// Checks x [B, C, …], the weight [O, C/groups, …], or [C, O/groups, …] if `transposed`, and the bias.
void check_channels(const Tensor& x, const Tensor& weight, const Tensor& bias, int64_t groups, bool transposed,
                    const char* spatial, int rank) {
  const char* const layout = transposed ? "[C, O/groups" : "[O, C/groups";
  if (groups < 1) throw ValueError(fmt::format("groups must be at least 1, not {}", groups));
  if (x.rank() != rank) {
    throw ShapeError(fmt::format("x{} must be [B, C, {}]{}", to_string(x.shape()), spatial,
                                 x.rank() == rank - 1 ? "; unsqueeze(0) makes a batch of one" : ""));
  }
  if (weight.rank() != rank) {
    throw ShapeError(
        fmt::format("weight{} must be {}, {}]", to_string(weight.shape()), layout, rank == 4 ? "R, S" : "S"));
  }
  for (int d = 1; d < rank; ++d) {
    if (x.size(d) == 0)
      throw ShapeError(fmt::format("x{} must not be empty; only the batch may have size 0", to_string(x.shape())));
  }
  if (weight.numel() == 0) throw ShapeError(fmt::format("weight{} must not be empty", to_string(weight.shape())));
  const int64_t channels = transposed ? weight.size(0) : weight.size(1) * groups;
  if (x.size(1) != channels) {
    const bool last = x.size(-1) == channels;
    const std::string remedy = !last       ? ""
                               : rank == 4 ? "; channels come second: did you mean permute(x, {0, 3, 1, 2})?"
                                           : "; channels come second: did you mean transpose(x, 1, 2)?";
    throw ShapeError(fmt::format("x{} has {} channels, but weight{}{} takes {}{}", to_string(x.shape()), x.size(1),
                                 to_string(weight.shape()), groups == 1 ? "" : fmt::format(" in {} groups", groups),
                                 channels, remedy));
  }
  if (weight.size(0) % groups != 0) {
    throw ShapeError(
        fmt::format("the first dim of weight{} is no multiple of {} groups", to_string(weight.shape()), groups));
  }
  const int64_t outputs = transposed ? weight.size(1) * groups : weight.size(0);
  if (bias.defined() && bias.shape() != Shape{outputs}) {
    throw ShapeError(
        fmt::format("bias{} must be [{}], one number for each output channel", to_string(bias.shape()), outputs));
  }
}

Tensor checked_conv2d(const char* name, Where where, const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Conv2dOptions& options) {
  const auto& [stride, padding, dilation, groups] = options;
  detail::check_at_least("stride", stride, 1);
  detail::check_at_least("padding", padding.size, 0);
  detail::check_at_least("dilation", dilation, 1);
  if (padding.same && stride != Size2d(1)) throw ValueError("padding \"same\" needs a stride of 1");
  const int64_t around[] = {padding.same ? dilation.height * (weight.size(2) - 1) : 2 * padding.size.height,
                            padding.same ? dilation.width * (weight.size(3) - 1) : 2 * padding.size.width};
  const Conv2dParams params{
      {stride.height, stride.width}, {around[0] / 2, around[1] / 2}, {dilation.height, dilation.width}, groups};
  const Shape output{x.size(0), weight.size(0),
                     detail::windows(x.size(2), weight.size(2), stride.height, around[0], dilation.height),
                     detail::windows(x.size(3), weight.size(3), stride.width, around[1], dilation.width)};
  return convolve(name, where, x, weight, bias, output, {x.shape(), weight.shape(), params});
}

}  // namespace

Padding2d::Padding2d(const char* mode) : same(std::string_view(mode) == "same") {
  if (!same && std::string_view(mode) != "valid") {
    throw ValueError(fmt::format("padding is a number, \"same\" or \"valid\", not \"{}\"", mode));
  }
}

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options, Where where) {
  const Call call("conv2d", where);
  check_channels(x, weight, bias, options.groups, false, "H, W", 4);
  return checked_conv2d("conv2d", where, x, weight, bias, options);
}

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv1dOptions& options, Where where) {
  const Call call("conv1d", where);
  check_channels(x, weight, bias, options.groups, false, "L", 3);
  Padding2d padding = options.padding;
  if (const auto [first, second] = padding.size; first != second) {
    throw ValueError(
        fmt::format("padding is ({}, {}), but one dim has one number, for both sides; pad(x, {{{}, {}}}) pads the "
                    "sides differently",
                    first, second, first, second));
  }
  detail::check_at_least("stride", options.stride, 1);
  detail::check_at_least("padding", padding.size, 0);
  detail::check_at_least("dilation", options.dilation, 1);
  padding.size.height = 0;
  return checked_conv2d("conv1d", where, x.unsqueeze(2), weight.unsqueeze(2), bias,
                        {.stride = {1, options.stride},
                         .padding = padding,
                         .dilation = {1, options.dilation},
                         .groups = options.groups})
      .squeeze(2);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTranspose2dOptions& options, Where where) {
  const Call call("conv_transpose2d", where);
  const auto& [stride, padding, output_padding, groups, dilation] = options;
  check_channels(x, weight, bias, groups, true, "H, W", 4);
  detail::check_at_least("stride", stride, 1);
  detail::check_at_least("padding", padding, 0);
  detail::check_at_least("output_padding", output_padding, 0);
  detail::check_at_least("dilation", dilation, 1);
  const auto size = [&](int dim, int64_t s, int64_t p, int64_t extra, int64_t d) {
    if (extra >= std::max(s, d)) {
      throw ValueError(fmt::format("output_padding must be below the stride or the dilation, not {}", extra));
    }
    const int64_t n = (x.size(dim) - 1) * s - 2 * p + d * (weight.size(dim) - 1) + extra + 1;
    if (n < 1) {
      throw ShapeError(fmt::format("with a padding of {}, nothing is left of dim {} of the output", p, dim));
    }
    return n;
  };
  const Shape output{x.size(0), weight.size(1) * groups,
                     size(2, stride.height, padding.height, output_padding.height, dilation.height),
                     size(3, stride.width, padding.width, output_padding.width, dilation.width)};
  const Conv2dParams params{
      {stride.height, stride.width}, {padding.height, padding.width}, {dilation.height, dilation.width}, groups};
  const Tensor y = input_gradient("conv_transpose2d", where, x, weight, {output, weight.shape(), params});
  return bias.defined() ? add(y, bias.reshape({-1, 1, 1})) : y;
}

}  // namespace linnet
