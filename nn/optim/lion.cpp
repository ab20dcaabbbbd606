#include <linnet/nn/optim/lion.h>

#include <utility>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/math.h>

namespace linnet::nn {

Lion::Lion(std::vector<Tensor> parameters, const LionConfig& config)
    : Lion(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, config) {}

Lion::Lion(std::vector<ParameterGroup> groups, const LionConfig& config)
    : Optimizer(std::move(groups), config.lr, config.weight_decay, 1), config_(config) {
  check_decay("beta1", config.beta1);
  check_decay("beta2", config.beta2);
}

void Lion::update(const std::vector<Update>& updates) {
  for (const Update& u : updates) {
    Tensor& p = u.slot->parameter;
    Tensor& momentum = u.slot->moments[0];
    const Tensor direction = sign(momentum * config_.beta1 + u.grad * (1 - config_.beta1));
    p -= (direction + p * u.weight_decay) * u.rate();
    momentum += (u.grad - momentum) * (1 - config_.beta2);
  }
}

}  // namespace linnet::nn
