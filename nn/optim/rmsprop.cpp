#include <linnet/nn/optim/rmsprop.h>

#include <utility>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/math.h>

namespace linnet::nn {

RMSprop::RMSprop(std::vector<Tensor> parameters, const RmsPropConfig& config)
    : RMSprop(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, config) {}

RMSprop::RMSprop(std::vector<ParameterGroup> groups, const RmsPropConfig& config)
    : Optimizer(std::move(groups), config.lr, config.weight_decay,
                1 + static_cast<size_t>(config.momentum > 0) + static_cast<size_t>(config.centered)),
      config_(config),
      has_buffer_(config.momentum > 0) {
  check_decay("alpha", config.alpha);
  check_setting("eps", config.eps);
  check_setting("momentum", config.momentum);
}

void RMSprop::set_momentum(double momentum) {
  check_new_momentum(momentum, has_buffer_);
  config_.momentum = momentum;
}

std::string RMSprop::moment_name(size_t m) const {
  if (m == 0) return "square_avg";
  return config_.centered && m == 1 ? "grad_avg" : "momentum_buffer";
}

void RMSprop::update(const std::vector<Update>& updates) {
  for (const Update& u : updates) {
    Tensor& p = u.slot->parameter;
    const Tensor g = u.weight_decay > 0 ? u.grad + p * u.weight_decay : u.grad;
    auto moment = u.slot->moments.begin();
    Tensor& mean_square = *moment++;
    mean_square += (square(g) - mean_square) * (1 - config_.alpha);
    Tensor variance = mean_square;
    if (config_.centered) {
      Tensor& mean = *moment++;
      mean += (g - mean) * (1 - config_.alpha);
      variance = mean_square - square(mean);
    }
    Tensor direction = g / (sqrt(variance) + config_.eps);
    if (config_.momentum > 0) {
      Tensor& buffer = *moment++;
      buffer *= config_.momentum;
      buffer += direction;
      direction = buffer;
    }
    p -= direction * u.rate();
  }
}

}  // namespace linnet::nn
