#include <doctest/doctest.h>
#include <linnet/nn/optim/schedule.h>

#include "tests/support/goldens.h"
#include "tests/support/near.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

nn::schedule::Decay decay(const Json& p) {
  return {.lr = p.at("lr"), .min_lr = p.at("min_lr"), .warmup = p.at("warmup"), .steps = p.at("steps")};
}

nn::Schedule warmup_cosine(const Json& p) { return nn::schedule::warmup_cosine(decay(p)); }

nn::Schedule warmup_linear(const Json& p) { return nn::schedule::warmup_linear(decay(p)); }

nn::Schedule inverse_sqrt(const Json& p) {
  return nn::schedule::inverse_sqrt({.lr = p.at("lr"), .warmup = p.at("warmup")});
}

nn::schedule::OneCycle cycle_config(const Json& p) {
  const bool linear = p.value("anneal_strategy", "cos") == "linear";
  return {.max_lr = p.at("max_lr"),
          .steps = p.at("steps"),
          .pct_start = p.at("pct_start"),
          .div_factor = p.at("div_factor"),
          .final_div_factor = p.at("final_div_factor"),
          .anneal_strategy = linear ? nn::schedule::AnnealStrategy::linear : nn::schedule::AnnealStrategy::cos};
}

nn::Schedule one_cycle(const Json& p) { return nn::schedule::one_cycle(cycle_config(p)); }

nn::Schedule one_cycle_momentum(const Json& p) { return nn::schedule::one_cycle_momentum(cycle_config(p)); }

nn::Schedule step(const Json& p) {
  nn::schedule::Step config{.lr = p.at("lr"), .step_size = p.at("step_size")};
  config.gamma = p.value("gamma", config.gamma);
  return nn::schedule::step(config);
}

nn::Schedule exponential(const Json& p) {
  return nn::schedule::exponential({.lr = p.at("lr"), .gamma = p.at("gamma")});
}

nn::Schedule warmup_stable_decay(const Json& p) {
  return nn::schedule::warmup_stable_decay({.lr = p.at("lr"),
                                            .min_lr = p.at("min_lr"),
                                            .warmup = p.at("warmup"),
                                            .decay = p.at("decay"),
                                            .steps = p.at("steps"),
                                            .one_minus_sqrt = p.at("one_minus_sqrt")});
}

void compare_plateau(const Golden& golden, DType dtype) {
  const Json& p = golden.parameters;
  nn::PlateauConfig config{.lr = p.at("lr"), .maximise = p.at("maximise")};
  config.factor = p.value("factor", config.factor);
  config.patience = p.value("patience", config.patience);
  config.threshold = p.value("threshold", config.threshold);
  config.cooldown = p.value("cooldown", config.cooldown);
  config.min_lr = p.value("min_lr", config.min_lr);
  nn::ReduceLROnPlateau plateau(config);
  const std::vector<double> expected = golden.get("lr").to_vector<double>();
  size_t step = 0;
  for (const double measurement : golden.get("measurements").to_vector<double>()) {
    CAPTURE(step);
    CHECK(plateau.step(measurement) == near(expected[step++], error_bound(golden, dtype)));
  }
}

/// Compares every rate separately, since the last ones are too small to matter in the norm of all.
Comparison rates(nn::Schedule (*make)(const Json& parameters)) {
  return [make](const Golden& golden, DType dtype) {
    const nn::Schedule rate = make(golden.parameters);
    const std::vector<double> expected = golden.get("lr").to_vector<double>();
    for (size_t step = 0; step < expected.size(); ++step) {
      CAPTURE(step);
      CHECK(rate(static_cast<int64_t>(step)) == near(expected[step], error_bound(golden, dtype)));
    }
  };
}

}  // namespace

TEST_CASE("The schedules agree with PyTorch and nanoGPT") {
  compare_goldens("schedules", DType::float64,
                  {{"warmup_cosine", rates(warmup_cosine)},
                   {"warmup_linear", rates(warmup_linear)},
                   {"inverse_sqrt", rates(inverse_sqrt)},
                   {"one_cycle", rates(one_cycle)},
                   {"one_cycle_momentum", rates(one_cycle_momentum)},
                   {"step", rates(step)},
                   {"exponential", rates(exponential)},
                   {"warmup_stable_decay", rates(warmup_stable_decay)},
                   {"plateau", compare_plateau}});
}
