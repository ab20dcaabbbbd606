#include <linnet/ops/layers/batch_norm.h>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>

/// Both ops read x as [B, S, G, P, L]: batches of S samples of G groups of P channels of L pixels. A group of a
/// sample is normalised over dims B, P and L. In group_norm each sample is normalised alone, and B is 1. In
/// batch_norm the whole batch is one sample, S is 1, and each channel is a group.

namespace linnet {
namespace {

using detail::dense;
using detail::OptionalView;

struct ChannelNorm {
  Shape parts;  // [B, S, G, P, L]
  double eps;
  bool fixed;  // whether mean and variance are given, and so do not depend on x

  int64_t channels() const { return parts[2] * parts[3]; }
  int64_t groups() const { return parts[1] * parts[2]; }
  int64_t values() const { return parts[0] * parts[3] * parts[4]; }  // of a group
  bool empty() const { return groups() * values() == 0; }
  /// x as the kernels take it. x may be uninitialised, and in AnomalyMode reshape would check its values.
  Tensor rows(const Tensor& x) const {
    const int64_t count = parts[1] * parts[2] * parts[3], pixels = parts[4];
    return detail::as_strided(dense(x), {parts[0], count, pixels}, {count * pixels, pixels, 1}, 0);
  }
};

/// The gradients of x, weight and bias from the kernel.
Grads fused_backward(const ChannelNorm& norm, const Tensor& g, const Tensor& x, const Tensor& weight,
                     const Tensor& mean, const Tensor& variance, bool needs_weight, bool needs_bias) {
  const Tensor dx = Tensor::empty(x.shape(), x.dtype(), x.device());
  const auto sums = [&](bool needed) {
    return needed ? zeros({norm.channels()}, computed_in(x.dtype()), x.device()) : Tensor();
  };
  const Tensor dweight = sums(needs_weight), dbias = sums(needs_bias);
  const Tensor dx_rows = norm.rows(dx), g_rows = norm.rows(g), x_rows = norm.rows(x);
  const OptionalView factors(dense(weight)), dfactors(dweight), doffsets(dbias);
  if (!norm.empty()) {
    backend(x).group_norm_backward(detail::view(dx_rows), dfactors.get(), doffsets.get(), detail::view(g_rows),
                                   detail::view(x_rows), detail::view(mean), detail::view(variance), factors.get(),
                                   norm.eps, norm.fixed);
  }
  return {dx, dweight, dbias};
}

/// The same from ops, which can be differentiated again. With x̂ = (x − mean)/√(var + eps) and h = g · weight:
///   dx = (h − mean(h) − x̂·mean(h·x̂))/√(var + eps), or h/√(var + eps) for fixed statistics
///   dweight = Σ g·x̂,   dbias = Σ g
Grads composed_backward(const ChannelNorm& norm, const Tensor& cotangent, const Tensor& input, const Tensor& weight,
                        const Tensor& fixed_mean, const Tensor& fixed_variance, bool needs_weight, bool needs_bias) {
  const Shape of_group{0, 3, 4}, of_channel{0, 1, 4};
  const Tensor g = detail::in_computed(cotangent).reshape(norm.parts);
  const Tensor x = detail::in_computed(input).reshape(norm.parts);
  const auto statistic = [&](const Tensor& fixed, const Tensor& values) {
    return norm.fixed ? fixed.to(x.dtype()).reshape({norm.groups(), 1, 1}) : mean(values, of_group, true);
  };
  const Tensor centred = x - statistic(fixed_mean, x);
  const Tensor rstd = rsqrt(statistic(fixed_variance, square(centred)) + norm.eps);
  const Tensor normalised = centred * rstd;
  Tensor dx = weight.defined() ? g * weight.reshape({norm.parts[2], norm.parts[3], 1}) : g;
  if (!norm.fixed) dx = dx - mean(dx, of_group, true) - normalised * mean(dx * normalised, of_group, true);
  const auto sum_of = [&](const Tensor& values) { return sum(values, of_channel).reshape({norm.channels()}); };
  return {(dx * rstd).reshape(input.shape()).to(input.dtype()), needs_weight ? sum_of(g * normalised) : Tensor(),
          needs_bias ? sum_of(g) : Tensor()};
}

/// Normalises x, and records it in `op`, whose first inputs are x, weight and bias.
Tensor normalise(Op& op, size_t inputs, const ChannelNorm& norm, const Tensor& x, const Tensor& weight,
                 const Tensor& bias, const Tensor& mean, const Tensor& variance) {
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  const Tensor y_rows = norm.rows(y), x_rows = norm.rows(x);
  const OptionalView factors(dense(weight)), offsets(dense(bias));
  if (!norm.empty()) {
    backend(x).group_norm(detail::view(y_rows), detail::view(x_rows), detail::view(mean), detail::view(variance),
                          factors.get(), offsets.get(), norm.eps);
  }
  return op.record(y,
                   [x = op.save(x), weight = op.save(weight), mean = op.save(mean), variance = op.save(variance),
                    needs_weight = op.needs_grad(1), needs_bias = op.needs_grad(2), inputs, norm](const Tensor& g) {
                     const auto backward = grad_enabled() ? composed_backward : fused_backward;
                     Grads grads = backward(norm, g, x(), weight(), mean(), variance(), needs_weight, needs_bias);
                     grads.resize(inputs);
                     return grads;
                   });
}

/// The mean and the biased variance of each group, in float64.
std::pair<Tensor, Tensor> moments(const ChannelNorm& norm, const Tensor& x) {
  const Tensor mean = Tensor::empty({norm.groups()}, DType::float64, x.device());
  const Tensor variance = Tensor::empty({norm.groups()}, DType::float64, x.device());
  const Tensor x_rows = norm.rows(x);
  if (!norm.empty()) {
    backend(x).group_moments(detail::view(mean), detail::view(variance), detail::view(x_rows));
  }
  return {mean, variance};
}

/// The product of all sizes of x [N, C, …] but the first two.
int64_t pixels_of(const Tensor& x) {
  int64_t pixels = 1;
  for (int d = 2; d < x.rank(); ++d) pixels *= x.size(d);
  return pixels;
}

void check_input(const Tensor& x, double eps) {
  if (x.rank() < 2) throw ShapeError(fmt::format("x{} must be [N, C, …], with channels", to_string(x.shape())));
  if (!(eps >= 0)) throw ValueError(fmt::format("eps must be at least 0, not {}", eps));
}

/// Checks that `row`, if it is defined, has a number for each channel of x.
void check_channel_row(const Tensor& x, const char* name, const Tensor& row) {
  if (!row.defined() || row.shape() == Shape{x.size(1)}) return;
  const bool last = row.shape() == Shape{x.size(-1)};
  const char* const remedy = last && x.rank() == 4 ? "; channels come second: did you mean permute(x, {0, 3, 1, 2})?"
                             : last && x.rank() == 3 ? "; channels come second: did you mean transpose(x, 1, 2)?"
                                                     : "";
  throw ShapeError(fmt::format("{}{} does not fit x{}: it must be [{}], one number for each channel{}", name,
                               to_string(row.shape()), to_string(x.shape()), x.size(1), remedy));
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                  const Tensor& bias, bool training, double momentum, double eps, Where where) {
  Op op("batch_norm", where, {x, weight, bias, running_mean, running_var});
  op.activation_dtype();
  check_input(x, eps);
  check_channel_row(x, "weight", weight);
  check_channel_row(x, "bias", bias);
  check_channel_row(x, "running_mean", running_mean);
  check_channel_row(x, "running_var", running_var);
  if (op.needs_grad(3) || op.needs_grad(4)) {
    throw AutogradError("running_mean and running_var have no gradient: detach() them");
  }
  if (!training && !(running_mean.defined() && running_var.defined())) {
    throw ValueError("running_mean and running_var are needed unless training is true");
  }
  const ChannelNorm norm{{x.size(0), 1, x.size(1), 1, pixels_of(x)}, eps, !training};
  if (!training) {
    const Tensor mean = running_mean.to(DType::float64), variance = running_var.to(DType::float64);
    return normalise(op, 5, norm, x, weight, bias, mean.contiguous(), variance.contiguous());
  }
  const int64_t count = norm.values();
  if (count < 2) {
    throw ValueError(fmt::format(
        "x{} has {} for each channel, and training needs two or more for a variance: take a larger batch, "
        "or normalise by running_mean and running_var, as layers do after eval()",
        to_string(x.shape()), count == 1 ? "one value" : "no value"));
  }
  const auto [mean, variance] = moments(norm, x);
  const auto update = [&](Tensor running, const Tensor& now) {
    const NoGrad no_grad;
    if (running.defined()) running.copy_(running.to(DType::float64) * (1 - momentum) + now * momentum);
  };
  update(running_mean, mean);
  update(running_var, variance * (static_cast<double>(count) / static_cast<double>(count - 1)));
  return normalise(op, 5, norm, x, weight, bias, mean, variance);
}

Tensor group_norm(const Tensor& x, int64_t num_groups, const Tensor& weight, const Tensor& bias, double eps,
                  Where where) {
  Op op("group_norm", where, {x, weight, bias});
  op.activation_dtype();
  check_input(x, eps);
  if (num_groups < 1 || x.size(1) % num_groups != 0) {
    throw ValueError(fmt::format("the {} channels of x{} cannot be divided into {} groups: num_groups must divide {}",
                                 x.size(1), to_string(x.shape()), num_groups, x.size(1)));
  }
  check_channel_row(x, "weight", weight);
  check_channel_row(x, "bias", bias);
  const ChannelNorm norm{{1, x.size(0), num_groups, x.size(1) / num_groups, pixels_of(x)}, eps, false};
  const auto [mean, variance] = moments(norm, x);
  return normalise(op, 3, norm, x, weight, bias, mean, variance);
}

}  // namespace linnet
