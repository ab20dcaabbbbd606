#pragma once

#include <concepts>
#include <vector>

#include <linnet/core/refused.h>
#include <linnet/nn/optim/optim.h>

namespace linnet::nn {

/// Options of Lion.
struct LionConfig {
  double lr = 1e-4;         ///< the authors advise 3 to 10 times less than with AdamW, and as much more weight_decay
  double beta1 = 0.9;       ///< of the step
  double beta2 = 0.99;      ///< of the moment
  double weight_decay = 0;  ///< decoupled from the gradient: p ← p − lr·weight_decay·p
};

/// p ← p − lr·(sign(β₁·m + (1 − β₁)·g) + λ·p), then m ← β₂·m + (1 − β₂)·g: each number moves by the learning rate.
///
/// Cost: one number of state for each number of a parameter; several passes over the parameters. The host reads
/// `StepOptions::apply`, so a step with it cannot be in a Recording.
/// Source: Chen et al. 2023, algorithm 2.
class Lion : public Optimizer {
 public:
  /// One group of all parameters, or several groups. Betas are in [0, 1), other settings at least 0.
  ///
  /// Dtypes: float32 or float64.
  /// Throws: as Adam.
  explicit Lion(std::vector<Tensor> parameters, const LionConfig& config = {});
  explicit Lion(std::vector<ParameterGroup> groups, const LionConfig& config = {});
  template <std::convertible_to<double> Rate>
  Lion(const std::vector<Tensor>& parameters, Rate) : Lion(parameters) {
    static_assert(detail::refused<Rate>, "options go in braces: write nn::Lion lion(parameters, {.lr = 1e-3})");
  }
  template <class Nothing = void>
  Lion(const std::vector<Tensor>& parameters, const detail::RefusedAdamConfig&) : Lion(parameters) {
    static_assert(detail::refused<Nothing>, "betas are two options: write {.beta1 = 0.9, .beta2 = 0.99}");
  }

 private:
  void update(const std::vector<Update>& updates) override;
  std::string moment_name(size_t) const override { return "exp_avg"; }
  LionConfig config_;
};

}  // namespace linnet::nn
