#include <linnet/nn/optim/optim.h>

#include <limits>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>

// Gradient clipping, by the norm of all gradients or by the value of each number.

namespace linnet::nn {

namespace {

/// ‖g‖₂ of each gradient, float64 [count], on the first gradient's device. One kernel computes all norms of a device.
Tensor norms_of(const std::vector<Tensor>& gradients) {
  std::vector<Tensor> norms;
  for (const Device device : {Device::cpu, Device::cuda}) {
    std::vector<Tensor> there;
    std::vector<View> views;
    for (const Tensor& gradient : gradients) {
      if (gradient.device() != device) continue;
      there.push_back(gradient.contiguous());
      views.push_back(detail::view(there.back()));
    }
    if (there.empty()) continue;
    const auto count = static_cast<int64_t>(views.size());
    const Tensor of_device = Tensor::empty({count}, DType::float64, device);
    backend(device).norms(detail::view(of_device), {views.data(), count});
    norms.push_back(of_device.to(gradients[0].device()));
  }
  return concat(norms, 0);
}

Tensor norms_of(const std::vector<Tensor>& gradients, double norm_type) {
  if (norm_type == 2) return norms_of(gradients);
  std::vector<Tensor> norms;
  norms.reserve(gradients.size());
  for (const Tensor& gradient : gradients) {
    norms.push_back(norm(gradient.to(DType::float64), norm_type).to(gradients[0].device()));
  }
  return stack(norms, 0);
}

void check_max_norm(double max_norm) {
  if (!(max_norm >= 0)) throw ValueError(fmt::format("max_norm is {}; it must be 0 or more", max_norm));
}

}  // namespace

Tensor grad_norm(const std::vector<Tensor>& parameters, double norm_type, Where where) {
  const Call call("grad_norm", where);
  const NoGrad guard;
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients.empty() ? scalar(0, DType::float64) : norm(norms_of(gradients, norm_type), norm_type);
}

Tensor clip_factor(const Tensor& norm, double max_norm, Where line) {
  const Call call("clip_factor", line);
  check_max_norm(max_norm);
  const NoGrad guard;
  const Tensor wanted = clamp(max_norm / (norm + 1e-6), {}, 1.0);  // PyTorch's guard against a norm of 0
  return where(lt(norm, std::numeric_limits<double>::infinity()), wanted, 1.0);
}

Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type, Where where) {
  const Call call("clip_grad_norm_", where);
  check_max_norm(max_norm);
  const NoGrad guard;
  const Tensor total = grad_norm(parameters, norm_type), factor = clip_factor(total, max_norm);
  // On the CPU the factor can be read, and is seldom below 1. On other devices the host must not wait for it.
  if (factor.device() == Device::cpu) {
    const double by = factor.item<double>();
    for (Tensor parameter : parameters) {
      if (by < 1 && parameter.grad().defined()) parameter.set_grad(parameter.grad() * by);
    }
    return total;
  }
  Tensor by = factor;
  for (Tensor parameter : parameters) {
    const Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    if (by.dtype() != gradient.dtype() || by.device() != gradient.device()) {
      by = factor.to(gradient.dtype()).to(gradient.device());
    }
    parameter.set_grad(gradient * by);
  }
  return total;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double limit, Where where) {
  const Call call("clip_grad_value_", where);
  if (!(limit >= 0)) throw ValueError(fmt::format("limit is {}; it must be 0 or more", limit));
  const NoGrad guard;
  for (Tensor parameter : parameters) {
    if (parameter.grad().defined()) parameter.set_grad(clamp(parameter.grad(), -limit, limit));
  }
}

}  // namespace linnet::nn
