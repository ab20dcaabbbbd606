#include <linnet/ops/layers/short_conv.h>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/heads.h>

namespace linnet {
namespace {

void check_short_conv(const Tensor& x, const Tensor& weight, const Tensor& padding_mask) {
  if (x.rank() != 3) {
    throw ShapeError(
        fmt::format("x{} has rank {}; [batch, tokens, width] is needed", to_string(x.shape()), x.rank()));
  }
  if (weight.rank() != 2 || weight.shape()[0] != x.shape()[2] || weight.shape()[1] < 1) {
    throw ShapeError(fmt::format("weight{} does not fit x{}: it must be [{}, taps], with at least one tap",
                                 to_string(weight.shape()), to_string(x.shape()), x.shape()[2]));
  }
  detail::check_padding_mask(padding_mask, x, "x");
}

Grads short_conv_backward(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& padding_mask,
                          int64_t before) {
  Op op("short_conv_backward", Where{}, {grad, x, weight});
  op.first_derivative_only("pad, narrow and mul");
  const Tensor g = detail::with_plain_rows(grad);
  const Tensor dx = Tensor::empty(x.shape(), x.dtype(), x.device());
  const Tensor dweight = Tensor::empty(weight.shape(), weight.dtype(), weight.device());
  backend(x).short_conv_backward(detail::view(dx), detail::view(dweight), detail::view(g), detail::view(x),
                                 detail::view(weight), detail::OptionalView(padding_mask).get(), before);
  return {dx, dweight};
}

}  // namespace

Tensor short_conv(const Tensor& x, const Tensor& weight, const ShortConvOptions& options, Where where) {
  Op op("short_conv", where, {x, weight});
  const DType dtype = op.activation_dtype();
  check_short_conv(x, weight, options.padding_mask);
  const int64_t taps = weight.shape()[1], before = options.causal ? taps - 1 : (taps - 1) / 2;
  const Tensor tokens = detail::with_plain_rows(x);
  Tensor y = Tensor::empty(x.shape(), dtype, x.device());
  backend(x).short_conv(detail::view(y), detail::view(tokens), detail::view(weight),
                        detail::OptionalView(options.padding_mask).get(), before);
  return op.record(
      y, [x = op.save(tokens), weight = op.save(weight), padding_mask = op.save(options.padding_mask),
          before](const Tensor& g) { return short_conv_backward(g, x(), weight(), padding_mask(), before); });
}

}  // namespace linnet
