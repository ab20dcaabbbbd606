#include <algorithm>
#include <memory>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "tests/support/goldens.h"
#include "tests/support/near.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

const std::vector<std::string> kNames = {"weight", "bias"};

/// The initial parameters of all optimizers, and their gradients.
Golden shared_inputs() {
  const std::vector<Golden> all = read_goldens("optim");
  return *std::find_if(all.begin(), all.end(), [](const Golden& golden) { return golden.op() == "inputs"; });
}

using Groups = std::vector<nn::ParameterGroup>;
using Make = std::unique_ptr<nn::Optimizer> (*)(Groups groups, const Json& options);

// An option that a case leaves out keeps linnet's default, which must be PyTorch's.

std::unique_ptr<nn::Optimizer> make_sgd(Groups groups, const Json& options) {
  nn::SgdConfig config;
  config.momentum = options.value("momentum", config.momentum);
  config.dampening = options.value("dampening", config.dampening);
  config.weight_decay = options.value("weight_decay", config.weight_decay);
  config.nesterov = options.value("nesterov", config.nesterov);
  return std::make_unique<nn::SGD>(std::move(groups), config);
}

template <class Adam, class Config>
std::unique_ptr<nn::Optimizer> make_adam(Groups groups, const Json& options) {
  Config config;
  config.weight_decay = options.value("weight_decay", config.weight_decay);
  const auto betas = options.value("betas", std::vector<double>{config.beta1, config.beta2});
  config.beta1 = betas.at(0);
  config.beta2 = betas.at(1);
  return std::make_unique<Adam>(std::move(groups), config);
}

std::unique_ptr<nn::Optimizer> make_rmsprop(Groups groups, const Json& options) {
  nn::RmsPropConfig config;
  config.alpha = options.value("alpha", config.alpha);
  config.eps = options.value("eps", config.eps);
  config.weight_decay = options.value("weight_decay", config.weight_decay);
  config.momentum = options.value("momentum", config.momentum);
  config.centered = options.value("centered", config.centered);
  return std::make_unique<nn::RMSprop>(std::move(groups), config);
}

std::unique_ptr<nn::Optimizer> make_muon(Groups groups, const Json& options) {
  const std::map<std::string, nn::MuonLr> adjustments{{"original", nn::MuonLr::original},
                                                      {"match_rms_adamw", nn::MuonLr::match_rms_adamw},
                                                      {"spectral_unclamped", nn::MuonLr::spectral_unclamped}};
  nn::MuonConfig config;
  config.weight_decay = options.value("weight_decay", config.weight_decay);
  config.momentum = options.value("momentum", config.momentum);
  config.nesterov = options.value("nesterov", config.nesterov);
  config.ns_steps = options.value("ns_steps", config.ns_steps);
  if (options.contains("adjust_lr_fn")) config.adjust_lr = adjustments.at(options.at("adjust_lr_fn"));
  return std::make_unique<nn::Muon>(std::move(groups), config);
}

/// Sets rate and momentum of each step as OneCycleLR, if the case has a `cycle`.
std::function<void(int step)> cycle_of(const Golden& golden, nn::Optimizer& optimizer) {
  if (!golden.parameters.contains("cycle")) return [](int) {};
  const Json& p = golden.parameters.at("cycle");
  REQUIRE(p.at("anneal_strategy") == "linear");
  const nn::schedule::OneCycle config{.max_lr = p.at("max_lr"),
                                      .steps = golden.parameters.at("saved_steps").back(),
                                      .pct_start = p.at("pct_start"),
                                      .anneal_strategy = nn::schedule::AnnealStrategy::linear};
  return [&optimizer, lr = nn::schedule::one_cycle(config),
          momentum = nn::schedule::one_cycle_momentum(config)](int step) {
    for (size_t group = 0; group < optimizer.groups().size(); ++group) optimizer.set_lr(lr(step), group);
    if (auto* adam = dynamic_cast<nn::Adam*>(&optimizer)) return adam->set_beta1(momentum(step));
    if (auto* sgd = dynamic_cast<nn::SGD*>(&optimizer)) return sgd->set_momentum(momentum(step));
    if (auto* rmsprop = dynamic_cast<nn::RMSprop*>(&optimizer)) return rmsprop->set_momentum(momentum(step));
    dynamic_cast<nn::Muon&>(optimizer).set_momentum(momentum(step));
  };
}

/// Runs the optimizer along the shared gradients, each parameter with the rate of its own group.
Comparison optimizer_comparison(Make make) {
  return [make](const Golden& golden, DType dtype) {
    const Golden shared = shared_inputs();
    std::map<std::string, Tensor> parameters;
    Groups groups;
    for (const auto& [name, lr] : golden.parameters.at("group_lr").items()) {
      parameters[name] = shared.get("initial_" + name).to(dtype).clone().set_requires_grad();
      groups.push_back({.parameters = {parameters[name]}, .lr = lr});
    }
    const std::unique_ptr<nn::Optimizer> optimizer = make(groups, golden.parameters.at("options"));
    const auto set_cycle = cycle_of(golden, *optimizer);
    const auto saved = golden.parameters.at("saved_steps").get<std::vector<int>>();
    for (int step = 1; step <= saved.back(); ++step) {
      for (auto& [name, parameter] : parameters) {
        parameter.set_grad(shared.get("gradients_" + name).select(0, step - 1).to(dtype));
      }
      set_cycle(step - 1);
      optimizer->step();
      if (std::find(saved.begin(), saved.end(), step) == saved.end()) continue;
      for (const auto& [name, parameter] : parameters) {
        check_near(golden, name + "_step_" + std::to_string(step), parameter, error_bound(golden, dtype));
      }
    }
  };
}

/// Parameters with the case's gradients, in the order of kNames.
std::vector<Tensor> with_gradients(const Golden& golden, DType dtype) {
  std::vector<Tensor> parameters;
  for (const std::string& name : kNames) {
    const Tensor gradient = golden.get("grad_" + name).to(dtype);
    parameters.push_back(zeros(gradient.shape(), dtype).set_requires_grad());
    parameters.back().set_grad(gradient);
  }
  return parameters;
}

void check_clipped(const Golden& golden, const std::vector<Tensor>& parameters, DType dtype) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    check_near(golden, "clipped_grad_" + kNames[i], parameters[i].grad(), error_bound(golden, dtype));
  }
}

void compare_clip_grad_norm(const Golden& golden, DType dtype) {
  const std::vector<Tensor> parameters = with_gradients(golden, dtype);
  const double total = nn::clip_grad_norm_(parameters, golden.parameters.at("max_norm")).item<double>();
  check_near(golden, "total_norm", scalar(total, DType::float64), error_bound(golden, dtype));
  check_clipped(golden, parameters, dtype);
}

void compare_clip_grad_value(const Golden& golden, DType dtype) {
  const std::vector<Tensor> parameters = with_gradients(golden, dtype);
  nn::clip_grad_value_(parameters, golden.parameters.at("clip_value"));
  check_clipped(golden, parameters, dtype);
}

void compare_average(const Golden& golden, DType dtype) {
  const Tensor weights = golden.get("weights").to(dtype);
  Tensor parameter = zeros(weights.select(0, 0).shape(), dtype).set_requires_grad();
  nn::ExponentialMovingAverage average({parameter});
  const Json& options = golden.parameters.at("options");
  if (options.contains("decay")) average = nn::ExponentialMovingAverage({parameter}, options.at("decay"));
  std::vector<Tensor> averages;
  for (const Tensor& weight : weights.split(1)) {
    const NoGrad guard;
    parameter.copy_(weight.squeeze(0));
    average.update();
    averages.push_back(average.averages()[0].clone());
  }
  check_near(golden, "averages", stack(averages), error_bound(golden, dtype));
}

void check_inputs(const Golden& golden, DType) {
  for (const std::string& name : kNames) {
    CHECK(golden.get("gradients_" + name).size(0) == golden.parameters.at("steps").get<int64_t>());
  }
}

const std::map<std::string, Comparison> kComparisons = {
    {"inputs", check_inputs},
    {"SGD", optimizer_comparison(make_sgd)},
    {"Adam", optimizer_comparison(make_adam<nn::Adam, nn::AdamConfig>)},
    {"AdamW", optimizer_comparison(make_adam<nn::AdamW, nn::AdamWConfig>)},
    {"RMSprop", optimizer_comparison(make_rmsprop)},
    {"Lion", optimizer_comparison(make_adam<nn::Lion, nn::LionConfig>)},
    {"Muon", optimizer_comparison(make_muon)},
    {"average", compare_average},
    {"clip_grad_norm", compare_clip_grad_norm},
    {"clip_grad_value", compare_clip_grad_value},
};

}  // namespace

TEST_CASE("The optimizers agree with PyTorch, float64") { compare_goldens("optim", DType::float64, kComparisons); }
TEST_CASE("The optimizers agree with PyTorch, float32") { compare_goldens("optim", DType::float32, kComparisons); }
