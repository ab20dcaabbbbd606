#include <linnet/nn/optim/muon.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::nn {

Muon::Muon(std::vector<Tensor> parameters, const MuonConfig& config)
    : Muon(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, config) {}

Muon::Muon(std::vector<ParameterGroup> groups, const MuonConfig& config)
    : Optimizer(std::move(groups), config.lr, config.weight_decay, 1), config_(config) {
  check_setting("momentum", config.momentum);
  check_setting("eps", config.eps);
  if (config.ns_steps < 0 || config.ns_steps > 99) {
    throw ValueError(fmt::format("Muon: ns_steps is {}; it must be from 0 to 99", config.ns_steps));
  }
  for (const ParameterGroup& group : this->groups()) {
    for (const Tensor& parameter : group.parameters) {
      if (parameter.rank() == 2) continue;
      throw ShapeError(fmt::format(
          "Muon: a parameter of shape {} is no matrix; train gains, biases and embeddings with AdamW beside it",
          to_string(parameter.shape())));
    }
  }
}

void Muon::set_momentum(double momentum) {
  check_new_momentum(momentum, /*has_buffer=*/true);
  config_.momentum = momentum;
}

Tensor Muon::orthogonalised(const Tensor& m) const {
  const bool is_tall = m.size(0) > m.size(1);  // then the transpose has the smaller X·Xᵀ
  Tensor x = is_tall ? m.t() : m;
  x = x / maximum(norm(x), config_.eps);
  for (int64_t step = 0; step < config_.ns_steps; ++step) {
    const Tensor gram = matmul(x, x.t());
    x = x * config_.a + matmul(gram * config_.b + matmul(gram, gram) * config_.c, x);
  }
  return is_tall ? x.t() : x;
}

namespace {

double lr_factor(MuonLr adjust, const Tensor& parameter) {
  const auto rows = static_cast<double>(parameter.size(0)), columns = static_cast<double>(parameter.size(1));
  switch (adjust) {
    case MuonLr::match_rms_adamw: return 0.2 * std::sqrt(std::max(rows, columns));
    case MuonLr::spectral_unclamped: return std::sqrt(rows / columns);
    case MuonLr::original: break;
  }
  return std::sqrt(std::max(1.0, rows / columns));
}

}  // namespace

void Muon::update(const std::vector<Update>& updates) {
  for (const Update& u : updates) {
    Tensor& p = u.slot->parameter;
    Tensor& momentum = u.slot->moments[0];
    momentum += (u.grad - momentum) * (1 - config_.momentum);
    const Tensor ahead = config_.nesterov ? u.grad + (momentum - u.grad) * config_.momentum : momentum;
    p -= (orthogonalised(ahead) * lr_factor(config_.adjust_lr, p) + p * u.weight_decay) * u.rate();
  }
}

}  // namespace linnet::nn
