#include <linnet/nn/optim/optim.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>

namespace linnet::nn {

std::vector<ParameterGroup> decay_matrices_only(const std::vector<Tensor>& parameters, double weight_decay) {
  ParameterGroup matrices{.parameters = {}, .weight_decay = weight_decay};
  ParameterGroup others{.parameters = {}, .weight_decay = 0};
  for (const Tensor& parameter : parameters) {
    (parameter.rank() >= 2 ? matrices : others).parameters.push_back(parameter);
  }
  return {std::move(matrices), std::move(others)};
}

// ---- Optimizer ----

namespace {

/// Checks that the parameter is a leaf, so that backward gives it a gradient, and that kernels can change it.
void check_parameter(const Tensor& parameter) {
  const std::string shape = to_string(parameter.shape());
  if (!parameter.is_leaf()) {
    throw ValueError(fmt::format(
        "optimizer: a parameter of shape {} is the result of an op, which gets no grad(); train what it was made of",
        shape));
  }
  if (!parameter.is_contiguous()) {
    throw ValueError(
        fmt::format("optimizer: a parameter of shape {} is not contiguous; train its contiguous() copy", shape));
  }
  if (parameter.dtype() != DType::float32 && parameter.dtype() != DType::float64) {
    const bool is_storage = parameter.dtype() == DType::bfloat16;
    throw DTypeError(fmt::format("optimizer: a parameter of shape {} is {}{}; train its to(DType::float32)", shape,
                                 name_of(parameter.dtype()), is_storage ? ", which is only for storage" : ""));
  }
}

/// An option of a step, converted to `dtype` and copied to each of the devices; undefined if the option is.
std::map<Device, Tensor> on_devices(const std::map<Device, Tensor>& devices, const char* name, const Tensor& option,
                                    DType dtype) {
  std::map<Device, Tensor> result;
  for (const auto& [device, tensor] : devices) result[device] = {};
  if (!option.defined()) return result;
  if (option.numel() != 1) {
    throw ShapeError(fmt::format("{} must have one element, not shape {}", name, to_string(option.shape())));
  }
  const bool fits = is_floating(dtype) ? is_floating(option.dtype()) : option.dtype() == dtype;
  if (!fits) {
    throw DTypeError(fmt::format("{} must be {}, not {}", name, is_floating(dtype) ? "floating" : name_of(dtype),
                                 name_of(option.dtype())));
  }
  for (auto& [device, tensor] : result) tensor = option.reshape({}).to(dtype).to(device);
  return result;
}

template <class T>
const T* element_of(const Tensor& option) {
  return option.defined() ? static_cast<const T*>(detail::view(option).data) : nullptr;
}

}  // namespace

Optimizer::Optimizer(std::vector<ParameterGroup> groups, double lr, double weight_decay, size_t moments, bool fused)
    : groups_(std::move(groups)), moments_(moments), fused_(fused) {
  for (ParameterGroup& group : groups_) {
    group.lr = group.lr.value_or(lr);
    group.weight_decay = group.weight_decay.value_or(weight_decay);
    check_setting("lr", *group.lr);
    check_setting("weight_decay", *group.weight_decay);
    for (const Tensor& parameter : group.parameters) {
      check_parameter(parameter);
      const bool twice = std::any_of(slots_.begin(), slots_.end(), [&](const Slot& slot) {
        return parameter.numel() > 0 && detail::view(slot.parameter).data == detail::view(parameter).data;
      });
      if (twice) {
        throw ValueError(fmt::format("optimizer: a parameter of shape {} comes twice; give it to one group",
                                     to_string(parameter.shape())));
      }
      slots_.push_back({.parameter = parameter, .moments = {}, .lr = {}, .steps = {}});
    }
  }
  if (slots_.empty())
    throw ValueError(
        "optimizer: no parameters; give it model.parameters(), of a model that registers them, by parameter() or as "
        "modules inside it");
  const auto count = static_cast<int64_t>(slots_.size());
  for (int64_t i = 0; i < count; ++i) {
    Slot& slot = slots_[static_cast<size_t>(i)];
    const Device device = slot.parameter.device();
    if (!lr_.contains(device)) {
      lr_[device] = Tensor::empty({count}, DType::float64, device);
      steps_[device] = zeros({count}, DType::int64, device);
    }
    slot.lr = lr_[device].select(0, i);
    slot.steps = steps_[device].select(0, i);
  }
  initial_lr_ = group_rates();
  write_lr(initial_lr_);
}

void Optimizer::check_setting(const char* name, double value) {
  if (value >= 0 && std::isfinite(value)) return;
  throw ValueError(fmt::format("optimizer: {} is {}; it must be a finite number, 0 or more", name, value));
}

void Optimizer::check_decay(const char* name, double value) {
  if (value >= 0 && value < 1) return;
  throw ValueError(fmt::format("optimizer: {} is {}; it must be in [0, 1)", name, value));
}

void Optimizer::check_not_recorded(const char* name) const {
  if (!is_recorded_ && !Recording::is_under_way()) return;
  throw DeviceError(fmt::format(
      "set_{0}: a recorded step keeps the {0} that it was recorded with; call step() outside of a Recording, or make "
      "another optimizer and load_state() this one's state",
      name));
}

void Optimizer::check_new_momentum(double momentum, bool has_buffer) const {
  check_setting("momentum", momentum);
  if (momentum > 0 && !has_buffer) {
    throw ValueError(
        fmt::format("set_momentum: {} for an optimizer without momentum, which has no buffer for it; build it with a "
                    "momentum above 0, such as the first one of the schedule",
                    momentum));
  }
  check_not_recorded("momentum");
}

void Optimizer::apply_options(std::vector<Update>& updates, std::map<Device, Tensor>& factors) {
  for (Update& u : updates) {
    const Tensor& factor = factors[u.slot->parameter.device()];
    if (factor.defined()) u.grad = u.grad * factor.to(u.grad.dtype());
    u.slot->steps += 1;
  }
}

void Optimizer::step(const StepOptions& options, Where where) {
  const Call call("step", where);
  if (std::none_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.parameter.grad().defined(); })) {
    throw AutogradError("no parameter has a gradient; call backward(loss) first, and zero_grad() only after step()");
  }
  const NoGrad guard;
  auto factors = on_devices(steps_, "grad_factor", options.grad_factor, DType::float64);
  auto applies = on_devices(steps_, "apply", options.apply, DType::boolean);
  std::vector<Update> updates;
  auto slot = slots_.begin();
  for (const ParameterGroup& group : groups_) {
    for (size_t i = 0; i < group.parameters.size(); ++i, ++slot) {
      const Tensor grad = slot->parameter.grad();
      if (!grad.defined()) continue;
      const Device device = slot->parameter.device();
      if (grad.device() != device) {
        throw DeviceError(fmt::format(
            "a parameter of shape {} is on {}, its gradient on {}; move it with to(Device::{})",
            to_string(slot->parameter.shape()), name_of(device), name_of(grad.device()), name_of(device)));
      }
      if (slot->moments.empty() && moments_ > 0) {
        if (Recording::is_under_way()) {
          throw AutogradError("a parameter has its first gradient in a recorded step; make a step with one before");
        }
        std::vector<Tensor> moments;
        moments.reserve(moments_);
        for (size_t m = 0; m < moments_; ++m) moments.push_back(zeros_like(slot->parameter));
        slot->moments = std::move(moments);  // all or none, as memory may run out
      }
      updates.push_back({&*slot,
                         grad.contiguous(),
                         *group.lr,
                         *group.weight_decay,
                         {.lr = static_cast<const double*>(detail::view(slot->lr).data),
                          .steps = static_cast<int64_t*>(detail::view(slot->steps).data),
                          .apply = element_of<bool>(applies[device]),
                          .grad_factor = element_of<double>(factors[device])}});
    }
  }
  if (!fused_) {
    if (options.apply.defined() && !options.apply.item<bool>()) return;
    apply_options(updates, factors);
  }
  is_recorded_ = is_recorded_ || Recording::is_under_way();
  update(updates);
  for (const Update& done : updates) detail::bump_version(done.slot->parameter);
}

void Optimizer::zero_grad() {
  for (Slot& slot : slots_) slot.parameter.set_grad({});
}

void Optimizer::set_lr(double lr) {
  check_setting("lr", lr);
  const auto other =
      std::find_if(initial_lr_.begin(), initial_lr_.end(), [&](double own) { return own != initial_lr_[0]; });
  if (other != initial_lr_.end()) {
    throw ValueError(
        fmt::format("set_lr: the groups were built with different learning rates, {} and {}; scale_lr(factor) "
                    "keeps them in proportion, and set_lr(lr, group) sets one",
                    initial_lr_[0], *other));
  }
  write_lr(std::vector<double>(groups_.size(), lr));
}

void Optimizer::scale_lr(double factor) {
  check_setting("factor", factor);
  std::vector<double> rates = initial_lr_;
  for (double& rate : rates) rate *= factor;
  write_lr(rates);
}

void Optimizer::set_lr(double lr, size_t group) {
  check_setting("lr", lr);
  if (group >= groups_.size()) {
    throw IndexError(
        fmt::format("set_lr: group is {}, and the optimizer has {}, numbered from 0", group, groups_.size()));
  }
  std::vector<double> rates = group_rates();
  rates[group] = lr;
  write_lr(rates);
}

std::vector<double> Optimizer::group_rates() const {
  std::vector<double> rates;
  rates.reserve(groups_.size());
  for (const ParameterGroup& group : groups_) rates.push_back(*group.lr);
  return rates;
}

void Optimizer::write_lr(const std::vector<double>& rates) {
  const Call call("set_lr", Where{});
  std::vector<double> each;
  for (size_t i = 0; i < groups_.size(); ++i) each.insert(each.end(), groups_[i].parameters.size(), rates[i]);
  for (auto& [device, lr] : lr_) lr.copy_(tensor(each));
  for (size_t i = 0; i < groups_.size(); ++i) groups_[i].lr = rates[i];  // last, in case the copy above throws
}

// ---- SGD, Adam and AdamW ----

SGD::SGD(std::vector<Tensor> parameters, const SgdConfig& config)
    : SGD(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, config) {}

SGD::SGD(std::vector<ParameterGroup> groups, const SgdConfig& config)
    : Optimizer(std::move(groups), config.lr, config.weight_decay, config.momentum != 0 ? 1 : 0, /*fused=*/true),
      config_(config),
      has_buffer_(config.momentum != 0) {
  check_setting("momentum", config.momentum);
  check_setting("dampening", config.dampening);
  if (config.nesterov && (config.momentum <= 0 || config.dampening != 0)) {
    throw ValueError(fmt::format("SGD: Nesterov's rule needs momentum and no dampening; they are {} and {}",
                                 config.momentum, config.dampening));
  }
}

void SGD::set_momentum(double momentum) {
  check_new_momentum(momentum, has_buffer_);
  config_.momentum = momentum;
}

void SGD::update(const std::vector<Update>& updates) {
  for (const auto& [slot, grad, lr, weight_decay, scalars] : updates) {
    const bool plain = config_.momentum == 0;
    const View momentum = plain ? View{} : detail::view(slot->moments[0]);
    backend(slot->parameter)
        .sgd(detail::view(slot->parameter), detail::view(grad), plain ? nullptr : &momentum, scalars,
             {.momentum = config_.momentum,
              .dampening = config_.dampening,
              .weight_decay = weight_decay,
              .nesterov = config_.nesterov});
  }
}

Adam::Adam(std::vector<Tensor> parameters, const AdamConfig& config)
    : Adam(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, config) {}

Adam::Adam(std::vector<ParameterGroup> groups, const AdamConfig& config)
    : Adam(std::move(groups), config, /*decoupled=*/false) {}

Adam::Adam(std::vector<ParameterGroup> groups, const AdamConfig& config, bool decoupled)
    : Optimizer(std::move(groups), config.lr, config.weight_decay, 2, /*fused=*/true),
      config_(config),
      decoupled_(decoupled) {
  check_decay("beta1", config.beta1);
  check_decay("beta2", config.beta2);
  check_setting("eps", config.eps);
}

void Adam::set_beta1(double beta1) {
  check_decay("beta1", beta1);
  check_not_recorded("beta1");
  config_.beta1 = beta1;
}

void Adam::update(const std::vector<Update>& updates) {
  for (const Device device : {Device::cpu, Device::cuda}) {
    std::vector<AdamWUpdate> there;
    for (const auto& [slot, grad, lr, weight_decay, scalars] : updates) {
      if (slot->parameter.device() != device) continue;
      there.push_back({.param = detail::view(slot->parameter),
                       .grad = detail::view(grad),
                       .first_moment = detail::view(slot->moments[0]),
                       .second_moment = detail::view(slot->moments[1]),
                       .scalars = scalars,
                       .params = {.beta1 = config_.beta1,
                                  .beta2 = config_.beta2,
                                  .eps = config_.eps,
                                  .weight_decay = weight_decay,
                                  .decoupled = decoupled_}});
    }
    if (!there.empty()) backend(device).adamw({there.data(), static_cast<int64_t>(there.size())});
  }
}

namespace {

AdamConfig as_adam(const AdamWConfig& config) {
  return {.lr = config.lr,
          .beta1 = config.beta1,
          .beta2 = config.beta2,
          .eps = config.eps,
          .weight_decay = config.weight_decay};
}

}  // namespace

AdamW::AdamW(std::vector<Tensor> parameters, const AdamWConfig& config)
    : AdamW(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, config) {}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamWConfig& config)
    : Adam(std::move(groups), as_adam(config), /*decoupled=*/true) {}

}  // namespace linnet::nn
