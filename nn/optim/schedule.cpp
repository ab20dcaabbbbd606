#include <linnet/nn/optim/schedule.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet::nn::schedule {

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

Schedule warmup_then(const Decay& decay, double (*shape)(double from, double to, double fraction)) {
  check_rate("lr", decay.lr);
  check_rate("min_lr", decay.min_lr);
  if (decay.warmup < 0 || decay.steps <= decay.warmup) {
    throw ValueError(
        fmt::format("schedule: {} steps with {} of warm-up; steps must be more than warmup, and warmup 0 "
                    "or more",
                    decay.steps, decay.warmup));
  }
  return [decay, shape](int64_t step) {
    if (step < decay.warmup) {
      return decay.lr * static_cast<double>(step + 1) / static_cast<double>(decay.warmup + 1);
    }
    const double fraction =
        static_cast<double>(step - decay.warmup) / static_cast<double>(decay.steps - decay.warmup);
    return shape(decay.lr, decay.min_lr, std::min(fraction, 1.0));
  };
}

}  // namespace

Schedule constant(double lr) {
  check_rate("lr", lr);
  return [lr](int64_t) { return lr; };
}

Schedule warmup_cosine(const Decay& decay) { return warmup_then(decay, cosine); }
Schedule warmup_linear(const Decay& decay) { return warmup_then(decay, straight); }

Schedule inverse_sqrt(const InverseSqrt& config) {
  check_rate("lr", config.lr);
  if (config.warmup < 1)
    throw ValueError(fmt::format("schedule: warmup is {}; it must be at least 1", config.warmup));
  return [config](int64_t step) {
    const double s = static_cast<double>(step + 1), warmup = static_cast<double>(config.warmup);
    return config.lr * std::min(s / warmup, std::sqrt(warmup / s));
  };
}

Schedule one_cycle(const OneCycle& config) {
  check_rate("max_lr", config.max_lr);
  if (!(config.div_factor > 0 && config.final_div_factor > 0)) {
    throw ValueError(fmt::format("schedule: div_factor is {} and final_div_factor {}; both must be above 0",
                                 config.div_factor, config.final_div_factor));
  }
  if (config.steps < 1) throw ValueError(fmt::format("schedule: {} steps; at least 1 is needed", config.steps));
  if (!(config.pct_start >= 0 && config.pct_start <= 1)) {
    throw ValueError(fmt::format("schedule: pct_start is {}; it must be in [0, 1]", config.pct_start));
  }
  return [config](int64_t step) {
    const double last = static_cast<double>(config.steps) - 1;
    const double position = std::min(static_cast<double>(step), last);
    const double top = config.pct_start * static_cast<double>(config.steps) - 1;  // the step of the highest rate
    const double first_lr = config.max_lr / config.div_factor;
    if (position <= top) return cosine(first_lr, config.max_lr, top > 0 ? position / top : 1);
    const double fraction = last > top ? (position - top) / (last - top) : 1;
    return cosine(config.max_lr, first_lr / config.final_div_factor, fraction);
  };
}

}  // namespace linnet::nn::schedule
