#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <linnet/core/files/safetensors.h>

namespace linnet::nn {

/// A learning rate for every step, counted from 0. It is a pure function, so a checkpoint need not save it.
///
///     const auto rate = nn::schedule::warmup_cosine({.lr = 1e-3, .min_lr = 1e-4, .warmup = 100, .steps = 2000});
///     optimizer.set_lr(rate(step));
///
/// Where groups of parameters have rates of their own, a schedule with `lr = 1` gives the factors for `scale_lr`.
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
  int64_t steps = 0;   ///< steps of the whole run, more than `warmup`
};

/// A linear rise, then half a cosine wave down to min_lr: nanoGPT's schedule.
Schedule warmup_cosine(const Decay& decay);
/// A linear rise, then a straight line down to min_lr.
Schedule warmup_linear(const Decay& decay);

/// Settings of a linear rise, a constant rate and a fall at the end.
struct WarmupStableDecay {
  double lr = 1e-3;             ///< reached after the warm-up
  double min_lr = 0;            ///< reached at `steps`, and kept
  int64_t warmup = 0;           ///< steps of linear rise, lr·(step + 1)/(warmup + 1)
  int64_t decay = 0;            ///< steps of the fall, at least 1
  int64_t steps = 0;            ///< steps of the whole run, at least warmup + decay
  bool one_minus_sqrt = false;  ///< whether the fall is 1 − √fraction instead of a straight line
};

/// A linear rise, a constant rate, then a fall to min_lr over the last `decay` steps. Up to the fall the rates do not
/// depend on `steps`, so a checkpoint from before the fall can be continued with a longer run.
///
/// Source: Hu et al. 2024 (MiniCPM), section 4; Hägele et al. 2024, eq. 1, for 1 − √fraction.
Schedule warmup_stable_decay(const WarmupStableDecay& config);

/// Settings of a fall in steps.
struct Step {
  double lr = 1e-3;       ///< the first rate
  int64_t step_size = 0;  ///< steps with the same rate, at least 1
  double gamma = 0.1;     ///< the factor of the rate after each `step_size` steps
};

/// lr·gamma^⌊step/step_size⌋, as PyTorch's StepLR.
Schedule step(const Step& config);

/// Settings of a fall at given steps.
struct MultiStep {
  double lr = 1e-3;                      ///< the first rate
  std::vector<int64_t> milestones = {};  ///< steps, in increasing order, at which the rate falls
  double gamma = 0.1;                    ///< the factor of the rate at each of them
};

/// lr·gamma^(milestones up to the step), as PyTorch's MultiStepLR.
Schedule multi_step(const MultiStep& config);

/// Settings of a geometric fall.
struct Exponential {
  double lr = 1e-3;  ///< the first rate
  double gamma = 1;  ///< the factor of the rate after every step
};

/// lr·gamma^step, as PyTorch's ExponentialLR.
Schedule exponential(const Exponential& config);

/// Settings of a linear rise and a fall with 1/√s.
struct InverseSqrt {
  double lr = 1e-3;    ///< the highest rate, reached at the end of the warm-up
  int64_t warmup = 1;  ///< steps of the linear rise, at least 1
};

/// lr·min(s/warmup, √(warmup/s)) with s = step + 1, scaled so that the peak is `lr`.
///
/// Source: Vaswani et al. 2017, eq. 3.
Schedule inverse_sqrt(const InverseSqrt& config);

/// The shape of a rise or a fall.
enum class AnnealStrategy : uint8_t {
  cos,    ///< half a cosine wave
  linear  ///< a straight line
};

/// Settings of one rise and one fall over the whole run.
struct OneCycle {
  double max_lr = 1e-3;                                  ///< the highest rate
  int64_t steps = 0;                                     ///< steps of the whole run
  double pct_start = 0.3;                                ///< the share of steps in which the rate rises
  double div_factor = 25;                                ///< the first rate is max_lr/div_factor
  double final_div_factor = 1e4;                         ///< the last rate is max_lr/(div_factor·final_div_factor)
  AnnealStrategy anneal_strategy = AnnealStrategy::cos;  ///< the shape of the rise and of the fall
  double base_momentum = 0.85;                           ///< of one_cycle_momentum, where the rate is highest
  double max_momentum = 0.95;                            ///< of one_cycle_momentum, at the start and at the end
};

/// A rise to `max_lr`, then a fall, as PyTorch's OneCycleLR. Steps past the end keep the last rate.
///
/// Source: Smith & Topin 2018.
Schedule one_cycle(const OneCycle& config);
/// The momentum of PyTorch's OneCycleLR with its default cycle_momentum: it falls to `base_momentum` while the rate
/// rises, and then rises. For Adam and AdamW it is beta1:
///
///     const nn::schedule::OneCycle cycle{.max_lr = 1e-4, .steps = 5000};
///     const auto lr = nn::schedule::one_cycle(cycle), momentum = nn::schedule::one_cycle_momentum(cycle);
///     optimizer.set_lr(lr(step));
///     optimizer.set_beta1(momentum(step));
///
/// SGD, RMSprop and Muon have set_momentum. Build SGD and RMSprop with a momentum above 0, which makes its buffer:
///
///     const auto momentum = nn::schedule::one_cycle_momentum({.max_lr = 0.1, .steps = 5000});
///     nn::SGD sgd(model.parameters(), {.lr = 0.004, .momentum = momentum(0)});
///     sgd.set_momentum(momentum(step));
Schedule one_cycle_momentum(const OneCycle& config);

}  // namespace schedule

/// Options of ReduceLROnPlateau, as in PyTorch.
struct PlateauConfig {
  double lr = 1e-3;         ///< the first rate
  bool maximise = false;    ///< whether more is better, as with an accuracy: PyTorch's mode "max"
  double factor = 0.1;      ///< a reduction multiplies the rate by this; below 1
  int64_t patience = 10;    ///< how many measurements in a row may be no better before the rate is reduced
  double threshold = 1e-4;  ///< a better measurement beats the best by this share of it: threshold_mode "rel"
  int64_t cooldown = 0;     ///< how many measurements after a reduction do not count against `patience`
  double min_lr = 0;        ///< the lowest rate
  double eps = 1e-8;        ///< a reduction by this or less is not made
};

/// Reduces the learning rate when a measurement, such as the validation loss, stops improving, as in PyTorch. Unlike
/// schedules it has a state:
///
///     nn::ReduceLROnPlateau plateau({.lr = 1e-3, .patience = 3});
///     const double validation_loss = cross_entropy(model(inputs), targets).item();
///     optimizer.set_lr(plateau.step(validation_loss));
class ReduceLROnPlateau {
 public:
  /// Throws: ValueError for settings out of range.
  explicit ReduceLROnPlateau(const PlateauConfig& config);

  /// Takes a measurement and returns the rate from now on. NaN never counts as better.
  double step(double measurement);
  /// The present rate.
  double lr() const { return lr_; }

  /// The state for a checkpoint.
  TensorMap state() const;
  /// Restores a state. An error leaves this one as it was.
  ///
  /// Throws: ValueError for the state of something else, or of other settings.
  void load_state(const TensorMap& state, Where where = {});

 private:
  PlateauConfig config_;
  double lr_, best_;
  int64_t not_better_ = 0;  // how many measurements in a row were no better
  int64_t cooling_ = 0;     // how many further measurements do not count
};

}  // namespace linnet::nn
