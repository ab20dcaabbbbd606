#pragma once

#include <cstdint>
#include <functional>

namespace linnet::nn {

/// A learning rate for every step, counted from 0. It is a pure function, so a resumed run needs no state of it.
///
///     const auto rate = nn::schedule::warmup_cosine({.lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .steps = 2000});
///     optimizer.set_lr(rate(step));
using Schedule = std::function<double(int64_t step)>;

/// Schedules.
///
/// Throws: ValueError for settings out of range.
namespace schedule {

/// `lr` at every step.
Schedule constant(double lr);

/// Settings of a linear rise and a fall.
struct Decay {
  double lr = 1e-3;    ///< reached after the warm-up
  double min_lr = 0;   ///< reached at `steps`, and kept
  int64_t warmup = 0;  ///< steps of linear rise, lr·(step + 1)/(warmup + 1)
  int64_t steps = 0;   ///< of the whole run, more than `warmup`
};

/// A linear rise, then half a cosine wave down to min_lr: nanoGPT's schedule.
Schedule warmup_cosine(const Decay& decay);
/// A linear rise, then a straight line down to min_lr.
Schedule warmup_linear(const Decay& decay);

/// Settings of a linear rise and a fall with 1/√s.
struct InverseSqrt {
  double lr = 1e-3;    ///< the highest, reached at the end of the warm-up
  int64_t warmup = 1;  ///< at least 1
};

/// lr·min(s/warmup, √(warmup/s)) with s = step + 1, scaled so that the peak is `lr`.
///
/// Source: Vaswani et al. 2017, eq. 3.
Schedule inverse_sqrt(const InverseSqrt& config);

/// Settings of one rise and one fall over the whole run.
struct OneCycle {
  double max_lr = 1e-3;
  int64_t steps = 0;              ///< of the whole run
  double pct_start = 0.3;         ///< the share of steps that rise
  double div_factor = 25;         ///< starts at max_lr/div_factor
  double final_div_factor = 1e4;  ///< ends at max_lr/(div_factor·final_div_factor)
};

/// Half a cosine wave up, then half a cosine wave down, as PyTorch's OneCycleLR. Steps past the end keep the last
/// rate.
///
/// Source: Smith & Topin 2018.
Schedule one_cycle(const OneCycle& config);

}  // namespace schedule

}  // namespace linnet::nn
