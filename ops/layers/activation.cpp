#include <linnet/ops/layers/activation.h>

#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_names.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/elementwise.h>

/// Each activation has a derivative that is an op of its own: it takes one pass over the elements, and can be
/// differentiated again. Below, `g` is the cotangent of the activation and `h` that of its backward op.

namespace linnet {
namespace {

/// g·(1 − y²), where y = tanh(x)
Tensor tanh_backward(const Tensor& g, const Tensor& y) {
  Op op("tanh_backward", Where{}, {g, y});
  return op.record(detail::binary(Binary::tanh_backward, g, y), [g = op.save(g), y = op.save(y)](const Tensor& h) {
    return Grads{tanh_backward(h, y()), mul(mul(mul(h, g()), y()), -2)};
  });
}

/// g·y·(1 − y), where y = sigmoid(x)
Tensor sigmoid_backward(const Tensor& g, const Tensor& y) {
  Op op("sigmoid_backward", Where{}, {g, y});
  return op.record(detail::binary(Binary::sigmoid_backward, g, y), [g = op.save(g), y = op.save(y)](const Tensor& h) {
    return Grads{sigmoid_backward(h, y()), mul(mul(h, g()), 1 - 2 * y())};
  });
}

/// g where x > 0
Tensor relu_backward(const Tensor& g, const Tensor& x) {
  Op op("relu_backward", Where{}, {g, x});
  return op.record(detail::binary(Binary::relu_backward, g, x),
                   [x = op.save(x)](const Tensor& h) { return Grads{relu_backward(h, x()), {}}; });
}

/// φ(x), the normal density
Tensor normal_pdf(const Tensor& x) {
  return exp(square(x) * -0.5) * (std::numbers::inv_sqrtpi / std::numbers::sqrt2);
}

/// g·(Φ(x) + x·φ(x))
Tensor gelu_backward(const Tensor& g, const Tensor& x) {
  Op op("gelu_backward", Where{}, {g, x});
  return op.record(detail::binary(Binary::gelu_backward, g, x), [g = op.save(g), x = op.save(x)](const Tensor& h) {
    const Tensor near = clamp(x(), -40, 40);  // beyond, the density is 0 and the square may overflow
    return Grads{gelu_backward(h, x()), h * g() * normal_pdf(near) * (2 - square(near))};
  });
}

/// g·(½·(1 + t) + ½·x·(1 − t²)·u'), where u = √(2/π)·(x + 0.044715·x³) and t = tanh(u)
Tensor gelu_tanh_backward(const Tensor& g, const Tensor& x) {
  Op op("gelu_tanh_backward", Where{}, {g, x});
  return op.record(detail::binary(Binary::gelu_tanh_backward, g, x),
                   [g = op.save(g), x = op.save(x)](const Tensor& h) {
                     constexpr double kScale = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
                     constexpr double kCubic = 0.044715;
                     const Tensor near = clamp(x(), -10, 10);  // beyond, t is ±1 and powers of x may overflow
                     const Tensor t = tanh((near + kCubic * near * square(near)) * kScale);
                     const Tensor du = kScale * (1 + 3 * kCubic * square(near));
                     const Tensor ddu = 6 * kScale * kCubic * near;
                     const Tensor dt = 1 - square(t);  // by u
                     const Tensor second = dt * (du + 0.5 * near * ddu - near * t * square(du));
                     return Grads{gelu_tanh_backward(h, x()), h * g() * second};
                   });
}

/// g·s·(1 + x·(1 − s)), where s = sigmoid(x)
Tensor silu_backward(const Tensor& g, const Tensor& x) {
  Op op("silu_backward", Where{}, {g, x});
  return op.record(detail::binary(Binary::silu_backward, g, x), [g = op.save(g), x = op.save(x)](const Tensor& h) {
    const Tensor s = sigmoid(x());
    return Grads{silu_backward(h, x()), h * g() * s * (1 - s) * (2 + x() * (1 - 2 * s))};
  });
}

/// g·sigmoid(x)
Tensor softplus_backward(const Tensor& g, const Tensor& x) {
  Op op("softplus_backward", Where{}, {g, x});
  return op.record(detail::binary(Binary::softplus_backward, g, x),
                   [g = op.save(g), x = op.save(x)](const Tensor& h) {
                     return Grads{softplus_backward(h, x()), sigmoid_backward(h * g(), sigmoid(x()))};
                   });
}

}  // namespace

namespace detail {

Tensor elu_backward(const Tensor& g, const Tensor& x) {
  Op op("elu_backward", Where{}, {g, x});
  return op.record(binary(Binary::elu_backward, g, x), [g = op.save(g), x = op.save(x)](const Tensor& h) {
    const Tensor slope = linnet::where(gt(x(), 0), 0, exp(minimum(x(), 0)));
    return Grads{elu_backward(h, x()), h * g() * slope};
  });
}

}  // namespace detail

Tensor tanh(const Tensor& x, Where where) {
  Op op("tanh", where, {x});
  op.floating_dtype();
  Tensor out = detail::unary(Unary::tanh, x);
  return op.record(out, [y = op.save_output(out)](const Tensor& g) { return Grads{tanh_backward(g, y())}; });
}

Tensor sigmoid(const Tensor& x, Where where) {
  Op op("sigmoid", where, {x});
  op.floating_dtype();
  Tensor out = detail::unary(Unary::sigmoid, x);
  return op.record(out, [y = op.save_output(out)](const Tensor& g) { return Grads{sigmoid_backward(g, y())}; });
}

Tensor relu(const Tensor& x, Where where) {
  Op op("relu", where, {x});
  op.floating_dtype();
  Tensor out = detail::unary(Unary::relu, x);
  // y > 0 exactly where x > 0, and the next op usually saves y anyway.
  return op.record(out, [y = op.save_output(out)](const Tensor& g) { return Grads{relu_backward(g, y().detach())}; });
}

Tensor leaky_relu(const Tensor& x, double negative_slope, Where where) {
  Op op("leaky_relu", where, {x});
  op.floating_dtype();
  return op.record(detail::binary(Binary::leaky_relu, x, detail::number_beside(x, negative_slope)),
                   [x = op.save(x), negative_slope](const Tensor& g) {
                     return Grads{linnet::where(gt(x(), 0), g, g * negative_slope)};
                   });
}

Tensor elu(const Tensor& x, double alpha, Where where) {
  Op op("elu", where, {x});
  op.floating_dtype();
  return op.record(detail::binary(Binary::elu, x, detail::number_beside(x, alpha)),
                   [x = op.save(x), alpha](const Tensor& g) {
                     if (alpha == 1) return Grads{detail::elu_backward(g, x())};
                     return Grads{linnet::where(le(x(), 0), detail::elu_backward(g * alpha, x()), g)};
                   });
}

Tensor hardtanh(const Tensor& x, double min_val, double max_val, Where where) {
  Op op("hardtanh", where, {x});
  op.floating_dtype();
  Tensor out = clamp(x.detach(), min_val, max_val);
  return op.record(out, [y = op.save_output(out), min_val, max_val](const Tensor& g) {
    return Grads{linnet::where(le(y(), min_val) || ge(y(), max_val), 0, g)};
  });
}

Tensor relu6(const Tensor& x, Where where) {
  const Call call("relu6", where);
  return hardtanh(x, 0, 6);
}

Tensor hardsigmoid(const Tensor& x, Where where) {
  const Call call("hardsigmoid", where);
  const Tensor wide = detail::in_computed(x);  // a bfloat16 is rounded once
  return (hardtanh(wide + 3, 0, 6) / 6).to(x.dtype());
}

Tensor hardswish(const Tensor& x, Where where) {
  const Call call("hardswish", where);
  const Tensor wide = detail::in_computed(x);
  return (wide * hardtanh(wide + 3, 0, 6) / 6).to(x.dtype());
}

Tensor selu(const Tensor& x, Where where) {
  const Call call("selu", where);
  // Klambauer et al. 2017, section 2: mean 0 and variance 1 are a fixed point with these.
  constexpr double kAlpha = 1.6732632423543772848170429916717, kScale = 1.0507009873554804934193349852946;
  return (elu(detail::in_computed(x), kAlpha) * kScale).to(x.dtype());
}

Tensor prelu(const Tensor& x, const Tensor& weight, Where where) {
  const Call call("prelu", where);
  detail::check_floating(x.dtype());
  const bool fits = weight.rank() == 1 && (weight.numel() == 1 || (x.rank() >= 2 && weight.numel() == x.size(1)));
  if (!fits) {
    throw ShapeError(fmt::format("weight{} does not fit x{}; it has one slope, or one for each channel, dim 1 of x",
                                 to_string(weight.shape()), to_string(x.shape())));
  }
  Shape along = Shape::filled(x.rank(), 1);
  if (weight.numel() != 1) along[1] = weight.numel();
  // Without the elements that keep their value: the weight's gradient would have 0·∞ for an infinite one.
  const Tensor is_kept = gt(x, 0);
  return linnet::where(is_kept, x, masked_fill(x, is_kept, 0) * weight.view(along));
}

Tensor gelu(const Tensor& x, Gelu kind, Where where) {
  Op op("gelu", where, {x});
  op.floating_dtype();
  const bool is_exact = kind == Gelu::erf;
  return op.record(detail::unary(is_exact ? Unary::gelu : Unary::gelu_tanh, x),
                   [x = op.save(x), is_exact](const Tensor& g) {
                     return Grads{is_exact ? gelu_backward(g, x()) : gelu_tanh_backward(g, x())};
                   });
}

Tensor silu(const Tensor& x, Where where) {
  Op op("silu", where, {x});
  op.floating_dtype();
  return op.record(detail::unary(Unary::silu, x),
                   [x = op.save(x)](const Tensor& g) { return Grads{silu_backward(g, x())}; });
}

Tensor mish(const Tensor& x, Where where) {
  const Call call("mish", where);
  const Tensor wide = detail::in_computed(x);
  return (wide * tanh(softplus(wide))).to(x.dtype());
}

Tensor softplus(const Tensor& x, double beta, Where where) {
  const Call call("softplus", where);
  if (!(beta > 0)) throw ValueError(fmt::format("beta must be positive, not {}", beta));
  if (beta != 1) {
    detail::check_floating(x.dtype());
    const Tensor scaled = x * beta;  // where it overflows, the result is x
    return linnet::where(scaled == INFINITY, x, softplus(scaled) / beta);
  }
  Op op("softplus", where, {x});
  op.floating_dtype();
  return op.record(detail::unary(Unary::softplus, x),
                   [x = op.save(x)](const Tensor& g) { return Grads{softplus_backward(g, x())}; });
}

Tensor logsigmoid(const Tensor& x, Where where) {
  const Call call("logsigmoid", where);
  return -softplus(-x);
}

Tensor glu(const Tensor& x, int64_t dim, Where where) {
  const Call call("glu", where);
  const int64_t size = x.size(dim), half = size / 2;
  if (size % 2 != 0) {
    throw ShapeError(fmt::format("dim {} of x{} has size {}, and only an even one has two halves", dim,
                                 to_string(x.shape()), size));
  }
  const Tensor wide = detail::in_computed(x);  // a bfloat16 is rounded once
  return (wide.narrow(dim, 0, half) * sigmoid(wide.narrow(dim, half, half))).to(x.dtype());
}

}  // namespace linnet
