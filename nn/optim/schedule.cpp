#include <linnet/nn/optim/schedule.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>

namespace linnet::nn {

namespace {

/// The value on half a cosine wave from `from` (fraction 0) to `to` (fraction 1).
double cosine(double from, double to, double fraction) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * fraction));
}

double straight(double from, double to, double fraction) { return from + (to - from) * fraction; }

void check_rate(const char* name, double rate) {
  if (rate >= 0 && std::isfinite(rate)) return;
  throw ValueError(fmt::format("schedule: {} is {}; it must be a finite number, 0 or more", name, rate));
}

void check_momentum(const char* name, double momentum) {
  if (momentum >= 0 && momentum < 1) return;
  throw ValueError(fmt::format("schedule: {} is {}; it must be in [0, 1)", name, momentum));
}

/// lr·(step + 1)/(warmup + 1): the rates of a warm-up.
double rise(double lr, int64_t step, int64_t warmup) {
  return lr * static_cast<double>(step + 1) / static_cast<double>(warmup + 1);
}

Schedule warmup_then(const schedule::Decay& decay, double (*shape)(double from, double to, double fraction)) {
  check_rate("lr", decay.lr);
  check_rate("min_lr", decay.min_lr);
  if (decay.warmup < 0 || decay.steps <= decay.warmup) {
    throw ValueError(
        fmt::format("schedule: {} steps with {} of warm-up; steps must be more than warmup, and warmup 0 "
                    "or more",
                    decay.steps, decay.warmup));
  }
  return [decay, shape](int64_t step) {
    if (step < decay.warmup) return rise(decay.lr, step, decay.warmup);
    const double fraction =
        static_cast<double>(step - decay.warmup) / static_cast<double>(decay.steps - decay.warmup);
    return shape(decay.lr, decay.min_lr, std::min(fraction, 1.0));
  };
}

}  // namespace

namespace schedule {

Schedule constant(double lr) {
  check_rate("lr", lr);
  return [lr](int64_t) { return lr; };
}

Schedule warmup_cosine(const Decay& decay) { return warmup_then(decay, cosine); }
Schedule warmup_linear(const Decay& decay) { return warmup_then(decay, straight); }

Schedule warmup_stable_decay(const WarmupStableDecay& config) {
  check_rate("lr", config.lr);
  check_rate("min_lr", config.min_lr);
  if (config.warmup < 0 || config.decay < 1 || config.steps - config.warmup < config.decay) {
    throw ValueError(
        fmt::format("schedule: {} steps with {} of warm-up and {} of decay; warmup must be 0 or more, decay at least "
                    "1, and steps no fewer than both",
                    config.steps, config.warmup, config.decay));
  }
  return [config](int64_t step) {
    if (step < config.warmup) return rise(config.lr, step, config.warmup);
    const int64_t of_decay = std::clamp<int64_t>(step - (config.steps - config.decay), 0, config.decay);
    const double fraction = static_cast<double>(of_decay) / static_cast<double>(config.decay);
    return straight(config.lr, config.min_lr, config.one_minus_sqrt ? std::sqrt(fraction) : fraction);
  };
}

Schedule step(const Step& config) {
  check_rate("lr", config.lr);
  check_rate("gamma", config.gamma);
  if (config.step_size < 1) {
    throw ValueError(fmt::format("schedule: step_size is {}; it must be at least 1", config.step_size));
  }
  return [config](int64_t at) {
    const int64_t falls = at / config.step_size;
    return config.lr * std::pow(config.gamma, static_cast<double>(falls));
  };
}

Schedule multi_step(const MultiStep& config) {
  check_rate("lr", config.lr);
  check_rate("gamma", config.gamma);
  if (!std::is_sorted(config.milestones.begin(), config.milestones.end())) {
    throw ValueError(
        fmt::format("schedule: milestones {{{}}} must be in increasing order", fmt::join(config.milestones, ", ")));
  }
  return [config](int64_t at) {
    const auto falls = std::upper_bound(config.milestones.begin(), config.milestones.end(), at);
    return config.lr * std::pow(config.gamma, static_cast<double>(falls - config.milestones.begin()));
  };
}

Schedule exponential(const Exponential& config) {
  return step({.lr = config.lr, .step_size = 1, .gamma = config.gamma});
}

Schedule inverse_sqrt(const InverseSqrt& config) {
  check_rate("lr", config.lr);
  if (config.warmup < 1)
    throw ValueError(fmt::format("schedule: warmup is {}; it must be at least 1", config.warmup));
  return [config](int64_t step) {
    const double s = static_cast<double>(step + 1), warmup = static_cast<double>(config.warmup);
    return config.lr * std::min(s / warmup, std::sqrt(warmup / s));
  };
}

namespace {

/// From `first` to `top` over the share pct_start of the steps, then to `last`.
Schedule cycle(const OneCycle& config, double first, double top, double last) {
  const auto shape = config.anneal_strategy == AnnealStrategy::cos ? cosine : straight;
  const double end = static_cast<double>(config.steps) - 1;
  const double turn = config.pct_start * static_cast<double>(config.steps) - 1;  // the step of `top`
  return [=](int64_t step) {
    const double position = std::min(static_cast<double>(step), end);
    if (position <= turn) return shape(first, top, turn > 0 ? position / turn : 1);
    return shape(top, last, end > turn ? (position - turn) / (end - turn) : 1);
  };
}

void check_cycle(const OneCycle& config) {
  check_rate("max_lr", config.max_lr);
  if (!(config.div_factor > 0 && config.final_div_factor > 0)) {
    throw ValueError(fmt::format("schedule: div_factor is {} and final_div_factor {}; both must be above 0",
                                 config.div_factor, config.final_div_factor));
  }
  if (config.steps < 1) throw ValueError(fmt::format("schedule: {} steps; at least 1 is needed", config.steps));
  if (!(config.pct_start >= 0 && config.pct_start <= 1)) {
    throw ValueError(fmt::format("schedule: pct_start is {}; it must be in [0, 1]", config.pct_start));
  }
  check_momentum("base_momentum", config.base_momentum);
  check_momentum("max_momentum", config.max_momentum);
}

}  // namespace

Schedule one_cycle(const OneCycle& config) {
  check_cycle(config);
  const double first = config.max_lr / config.div_factor;
  return cycle(config, first, config.max_lr, first / config.final_div_factor);
}

Schedule one_cycle_momentum(const OneCycle& config) {
  check_cycle(config);
  return cycle(config, config.max_momentum, config.base_momentum, config.max_momentum);
}

}  // namespace schedule

ReduceLROnPlateau::ReduceLROnPlateau(const PlateauConfig& config)
    : config_(config), lr_(config.lr), best_((config.maximise ? -1 : 1) * std::numeric_limits<double>::infinity()) {
  check_rate("lr", config.lr);
  check_rate("min_lr", config.min_lr);
  check_rate("threshold", config.threshold);
  check_rate("eps", config.eps);
  if (!(config.factor >= 0 && config.factor < 1)) {
    throw ValueError(fmt::format("schedule: factor is {}; it must be in [0, 1)", config.factor));
  }
  if (config.patience < 0 || config.cooldown < 0) {
    throw ValueError(fmt::format("schedule: patience is {} and cooldown {}; both must be 0 or more", config.patience,
                                 config.cooldown));
  }
}

double ReduceLROnPlateau::step(double measurement) {
  const bool is_better = config_.maximise ? measurement > best_ * (1 + config_.threshold)
                                          : measurement < best_ * (1 - config_.threshold);
  if (is_better) best_ = measurement;
  not_better_ = is_better || cooling_ > 0 ? 0 : not_better_ + 1;
  if (cooling_ > 0) --cooling_;
  if (not_better_ <= config_.patience) return lr_;
  const double reduced = std::max(lr_ * config_.factor, config_.min_lr);
  if (lr_ - reduced > config_.eps) lr_ = reduced;
  cooling_ = config_.cooldown;
  not_better_ = 0;
  return lr_;
}

TensorMap ReduceLROnPlateau::state() const {
  return {{"lr_and_best", tensor(std::vector{lr_, best_})}, {"counts", tensor(std::vector{not_better_, cooling_})}};
}

void ReduceLROnPlateau::load_state(const TensorMap& state, Where where) {
  const Call call("load_state", where);
  const auto find = [&](const char* name, DType dtype) {
    const auto found = state.find(name);
    if (state.size() == 2 && found != state.end() && found->second.shape() == Shape{2} &&
        found->second.dtype() == dtype) {
      return found->second;
    }
    throw ValueError(
        fmt::format("the state is not that of a ReduceLROnPlateau: it should have '{}', [2] {}, and one other tensor",
                    name, name_of(dtype)));
  };
  const auto numbers = find("lr_and_best", DType::float64).to_vector<double>();
  const auto counts = find("counts", DType::int64).to_vector<int64_t>();
  check_rate("lr", numbers[0]);
  if (counts[0] < 0 || counts[0] > config_.patience || counts[1] < 0 || counts[1] > config_.cooldown) {
    throw ValueError(fmt::format("the state was saved with another patience than {} or another cooldown than {}",
                                 config_.patience, config_.cooldown));
  }
  lr_ = numbers[0];
  best_ = numbers[1];
  not_better_ = counts[0];
  cooling_ = counts[1];
}

}  // namespace linnet::nn
