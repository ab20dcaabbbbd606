#pragma once

#include <concepts>
#include <vector>

#include <linnet/core/refused.h>
#include <linnet/nn/optim/optim.h>

namespace linnet::nn {

/// Options of RMSprop, as in PyTorch.
struct RmsPropConfig {
  double lr = 1e-2;         ///< the learning rate
  double alpha = 0.99;      ///< decay of the squared gradients' running mean
  double eps = 1e-8;        ///< added to the root in the denominator
  double weight_decay = 0;  ///< added to the gradient, times the parameter
  double momentum = 0;      ///< of the step
  bool centered = false;    ///< whether the denominator is the gradient's deviation from its running mean
};

/// RMSprop as in PyTorch: s ← α·s + (1 − α)·g², p ← p − lr·g/(√s + ε). The centered form has √(s − m²) with a running
/// mean m of g. With momentum, b ← μ·b + g/(√s + ε) takes the quotient's place.
///
/// Cost: one number of state for each number of a parameter, one more with momentum and one when centered; several
/// passes over the parameters. The host reads `StepOptions::apply`, so a step with it cannot be in a Recording.
/// Source: Tieleman & Hinton 2012, lecture 6.5; Graves 2013, eqs. 38–45 (centered).
class RMSprop : public Optimizer {
 public:
  /// One group of all parameters, or several groups. `alpha` is in [0, 1), other settings at least 0.
  ///
  /// Dtypes: float32 or float64.
  /// Throws: as Adam.
  explicit RMSprop(std::vector<Tensor> parameters, const RmsPropConfig& config = {});
  explicit RMSprop(std::vector<ParameterGroup> groups, const RmsPropConfig& config = {});
  template <std::convertible_to<double> Rate>
  RMSprop(const std::vector<Tensor>& parameters, Rate) : RMSprop(parameters) {
    static_assert(detail::refused<Rate>, "options go in braces: write nn::RMSprop rmsprop(parameters, {.lr = 1e-3})");
  }

  /// As SGD::set_momentum.
  void set_momentum(double momentum);
  double momentum() const { return config_.momentum; }  ///< the present value

 private:
  void update(const std::vector<Update>& updates) override;
  std::string moment_name(size_t m) const override;
  RmsPropConfig config_;
  bool has_buffer_;  // for b: whether it was built with momentum
};

}  // namespace linnet::nn
