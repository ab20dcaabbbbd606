#pragma once

#include <concepts>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <linnet/core/device/backend.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/core/refused.h>
#include <linnet/core/tensor.h>
#include <linnet/nn/refused_members.h>

namespace linnet::detail {

/// Adam's options with PyTorch's names.
struct RefusedAdamConfig {
  double lr = 0;
  std::pair<double, double> betas = {};
  double eps = 0, weight_decay = 0;
};

}  // namespace linnet::detail

namespace linnet::nn {

/// Parameters that share settings. When an optimizer is built, it fills in absent settings with its own.
struct ParameterGroup {
  std::vector<Tensor> parameters;           ///< of the group
  std::optional<double> lr = {};            ///< by default that of the optimizer
  std::optional<double> weight_decay = {};  ///< by default that of the optimizer
};

/// Two groups: tensors of rank 2 and more with `weight_decay`, and the others (gains, biases) without.
std::vector<ParameterGroup> decay_matrices_only(const std::vector<Tensor>& parameters, double weight_decay);

/// Options of a step, each a tensor with one element on any device, or undefined:
///
///     const Tensor norm = nn::grad_norm(parameters);
///     optimizer.step({.grad_factor = nn::clip_factor(norm, 1.0), .apply = lt(norm, INFINITY)});
struct StepOptions {
  /// The factor of all gradients in this step, of a floating dtype; 1 when undefined. The step multiplies them as it
  /// reads them, which saves a pass, and does not change `grad()`.
  Tensor grad_factor = {};
  /// A bool; true when undefined. Where it is false, nothing changes and no step is counted.
  Tensor apply = {};
};

/// Changes parameters by their gradients.
///
/// To write an optimizer, derive from this class and override `update`. The base class applies `StepOptions` before
/// it calls `update`: it multiplies gradients with the factor and counts the step. If `apply` is false, it does not
/// call `update`:
///
///     struct SignSGD : nn::Optimizer {
///       SignSGD(std::vector<Tensor> parameters, double lr)
///           : Optimizer({{.parameters = std::move(parameters)}}, lr, /*weight_decay=*/0, /*moments=*/0) {}
///       void update(const std::vector<Update>& updates) override {
///         for (const Update& u : updates) u.slot->parameter -= sign(u.grad) * u.lr;
///       }
///     };
class Optimizer : public detail::RefusedStateMembers {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// Changes every parameter that has a gradient, and leaves the others alone.
  ///
  /// Cost: one pass over the parameters.
  /// Throws: AutogradError when no parameter has a gradient, and in a Recording when one has its first gradient;
  /// DeviceError for a gradient on another device; ShapeError and DTypeError for an option of another size or dtype.
  void step(const StepOptions& options = {}, Where where = {});
  /// Drops the gradients.
  void zero_grad();

  /// Sets the learning rate of every group.
  ///
  /// Throws: ValueError for a rate that is negative or not finite, and where groups were built with different rates:
  /// scale_lr keeps them in proportion; DeviceError in a Recording, whose replays would not see a new rate.
  void set_lr(double lr);
  /// Sets the learning rate of one group.
  ///
  /// Throws: as above; IndexError for a group that does not exist.
  void set_lr(double lr, size_t group);
  /// Sets the learning rate of each group to `factor` times the rate with which it was built, as PyTorch's LambdaLR
  /// does. A schedule with a rate of 1 gives such factors:
  ///
  ///     nn::AdamW two_groups({{.parameters = {a}, .lr = 1e-4},
  ///                           {.parameters = {b}, .lr = 1e-3}});
  ///     const auto factor = nn::schedule::warmup_cosine({.lr = 1, .warmup = 100, .steps = 2000});
  ///     two_groups.scale_lr(factor(step));
  ///
  /// Throws: as set_lr of a group.
  void scale_lr(double factor);
  /// The groups with their present settings.
  const std::vector<ParameterGroup>& groups() const { return groups_; }

  /// The state for a checkpoint: moments and step counts of every parameter, by its position, and the groups'
  /// settings. The moments are not copied, so the next step edits them: write or clone() them before.
  TensorMap state() const;
  /// Restores a state. An error, even a failed allocation, leaves the optimizer as it was.
  ///
  /// Throws: ValueError for the state of another optimizer (Adam and AdamW take each other's) or of parameters of
  /// other shapes.
  void load_state(const TensorMap& state, Where where = {});

 protected:
  /// A parameter and its state: its moments, which the first step allocates, its learning rate and its step count.
  /// The last two are one-element views of tensors that have an element for each parameter.
  struct Slot {
    Tensor parameter;             ///< the parameter that is trained
    std::vector<Tensor> moments;  ///< of the shape of the parameter
    Tensor lr, steps;             ///< with one element each
  };

  /// `moments` is the number of moment tensors for each parameter. The kernels of a `fused` optimizer apply
  /// `StepOptions` themselves, through `Update::scalars`, so that the host need not wait for the device.
  ///
  /// Dtypes: float32 or float64.
  /// Throws: ValueError when there is nothing to train, when a parameter comes twice, is not a leaf or is not
  /// contiguous, and for settings that are negative or not finite; DTypeError for a parameter of another dtype.
  Optimizer(std::vector<ParameterGroup> groups, double lr, double weight_decay, size_t moments, bool fused = false);

  /// One parameter in a step. `grad` is contiguous. `slot->steps` already counts this step, except in a fused
  /// optimizer, whose kernel counts it.
  struct Update {
    Slot* slot;               ///< of the parameter
    Tensor grad;              ///< multiplied by the factor, unless fused
    double lr, weight_decay;  ///< of its group
    StepScalars scalars;      ///< for a fused optimizer

    /// `lr` as a tensor of the parameter's dtype, on its device, so that replays of a Recording see a changed rate.
    Tensor rate() const { return slot->lr.to(slot->parameter.dtype()); }
  };

  /// Changes the parameters in place, under NoGrad.
  virtual void update(const std::vector<Update>& updates) = 0;

  /// The name of moment `m` of a parameter in the state: `moment1`, … A class whose moments mean something else
  /// overrides it, so that the state of another optimizer is refused.
  virtual std::string moment_name(size_t m) const;

  /// Checks that a setting is a finite number, 0 or more.
  ///
  /// Throws: ValueError, with the name.
  static void check_setting(const char* name, double value);
  /// Checks that the decay of a running mean is in [0, 1).
  ///
  /// Throws: as check_setting.
  static void check_decay(const char* name, double value);
  /// Checks that a setting which steps keep when they are recorded can change.
  ///
  /// Throws: DeviceError, with the name, in a Recording and once a step of the optimizer is recorded.
  void check_not_recorded(const char* name) const;
  /// Checks a momentum that replaces the present one. `has_buffer` says whether the optimizer was built with
  /// momentum.
  ///
  /// Throws: ValueError for a momentum that is negative or not finite, and for one above 0 without a buffer; as
  /// check_not_recorded.
  void check_new_momentum(double momentum, bool has_buffer) const;

 private:
  std::vector<double> group_rates() const;
  /// Sets the learning rates of the groups, also in the tensors that kernels read.
  void write_lr(const std::vector<double>& rates);
  /// Multiplies the gradients with the factor on their device, and counts the step.
  static void apply_options(std::vector<Update>& updates, std::map<Device, Tensor>& factors);

  std::vector<ParameterGroup> groups_;
  std::vector<double> initial_lr_;       // of each group
  std::vector<Slot> slots_;              // in the order of the groups' parameters
  std::map<Device, Tensor> lr_, steps_;  // float64 and int64, an element for each slot, on each device in use
  size_t moments_;
  bool fused_;
  bool is_recorded_ = false;  // whether a Recording contains a step
};

/// Options of SGD, as in PyTorch.
struct SgdConfig {
  double lr = 1e-3;         ///< the learning rate
  double momentum = 0;      ///< μ
  double dampening = 0;     ///< τ
  double weight_decay = 0;  ///< added to the gradient, times the parameter
  bool nesterov = false;    ///< needs momentum and no dampening
};

/// Stochastic gradient descent with momentum, as in PyTorch: v ← μ·v + (1 − τ)·g, which begins as g, then
/// p ← p − lr·v, or with Nesterov's momentum p ← p − lr·(g + μ·v).
///
/// Cost: with momentum, one number of state for each number of a parameter.
class SGD : public Optimizer {
 public:
  /// One group of all parameters, or several groups.
  ///
  /// Dtypes: float32 or float64.
  /// Throws: ValueError for no parameters, for one that comes twice, is not a leaf or is not contiguous, and for
  /// settings out of range; DTypeError for a parameter of another dtype.
  explicit SGD(std::vector<Tensor> parameters, const SgdConfig& config = {});
  explicit SGD(std::vector<ParameterGroup> groups, const SgdConfig& config = {});
  template <std::convertible_to<double> Rate>
  SGD(const std::vector<Tensor>& parameters, Rate) : SGD(parameters) {
    static_assert(detail::refused<Rate>, "options go in braces: write nn::SGD sgd(parameters, {.lr = 1e-3})");
  }

  /// Sets the momentum of every group, for example to schedule::one_cycle_momentum(step). Unlike the learning rate,
  /// it is not in state(): set it again in a resumed run. With 0 a step leaves v as it is, as in PyTorch.
  ///
  /// Throws: ValueError for a momentum that is negative or not finite, and for one above 0 if the optimizer was built
  /// without; DeviceError in a Recording and once a step of the optimizer is recorded, since replays keep it.
  void set_momentum(double momentum);
  double momentum() const { return config_.momentum; }  ///< the present value

 private:
  void update(const std::vector<Update>& updates) override;
  SgdConfig config_;
  bool has_buffer_;  // for v: whether it was built with momentum
};

/// Options of Adam, as in PyTorch, but `betas` are two options here.
struct AdamConfig {
  double lr = 1e-3;         ///< the learning rate
  double beta1 = 0.9;       ///< decay of the gradients' running mean
  double beta2 = 0.999;     ///< decay of the squared gradients' running mean
  double eps = 1e-8;        ///< added to the root in the denominator
  double weight_decay = 0;  ///< added to the gradient, times the parameter
};

/// Adam.
///
/// Cost: two numbers of state for each number of a parameter.
/// Source: Kingma & Ba 2015, algorithm 1.
class Adam : public Optimizer {
 public:
  /// One group of all parameters, or several groups. Betas are in [0, 1), other settings at least 0.
  ///
  /// Dtypes: float32 or float64.
  /// Throws: ValueError for no parameters, for one that comes twice, is not a leaf or is not contiguous, and for
  /// settings out of range; DTypeError for a parameter of another dtype.
  explicit Adam(std::vector<Tensor> parameters, const AdamConfig& config = {});
  explicit Adam(std::vector<ParameterGroup> groups, const AdamConfig& config = {});
  template <std::convertible_to<double> Rate>
  Adam(const std::vector<Tensor>& parameters, Rate) : Adam(parameters) {
    static_assert(detail::refused<Rate>, "options go in braces: write nn::Adam adam(parameters, {.lr = 1e-3})");
  }
  template <class Nothing = void>
  Adam(const std::vector<Tensor>& parameters, const detail::RefusedAdamConfig&) : Adam(parameters) {
    static_assert(detail::refused<Nothing>, "betas are two options: write {.beta1 = 0.9, .beta2 = 0.999}");
  }

  /// Sets beta1 of every group, for example to schedule::one_cycle_momentum(step). The next step corrects the mean's
  /// bias with 1 − beta1^step of this beta1, as PyTorch does. Unlike the learning rate, beta1 is not in state(): set
  /// it again in a resumed run.
  ///
  /// Throws: ValueError unless 0 ≤ beta1 < 1; DeviceError in a Recording and once a step of the optimizer is
  /// recorded, since replays keep beta1.
  void set_beta1(double beta1);
  double beta1() const { return config_.beta1; }  ///< the present value

 protected:
  Adam(std::vector<ParameterGroup> groups, const AdamConfig& config, bool decoupled);  ///< AdamW if decoupled

 private:
  void update(const std::vector<Update>& updates) override;
  AdamConfig config_;
  bool decoupled_ = false;
};

/// Options of AdamW, as in PyTorch. The first four are Adam's.
struct AdamWConfig {
  double lr = 1e-3;            ///< the learning rate
  double beta1 = 0.9;          ///< of the first moment
  double beta2 = 0.999;        ///< of the second moment
  double eps = 1e-8;           ///< added to the denominator
  double weight_decay = 1e-2;  ///< decoupled from the gradient: p ← p − lr·weight_decay·p
};

/// Adam with decoupled weight decay.
///
/// Source: Loshchilov & Hutter 2019, algorithm 2.
class AdamW : public Adam {
 public:
  /// The same as Adam's constructors.
  explicit AdamW(std::vector<Tensor> parameters, const AdamWConfig& config = {});
  explicit AdamW(std::vector<ParameterGroup> groups, const AdamWConfig& config = {});
  template <std::convertible_to<double> Rate>
  AdamW(const std::vector<Tensor>& parameters, Rate) : AdamW(parameters) {
    static_assert(detail::refused<Rate>, "options go in braces: write nn::AdamW adamw(parameters, {.lr = 1e-3})");
  }
  template <class Nothing = void>
  AdamW(const std::vector<Tensor>& parameters, const detail::RefusedAdamConfig&) : AdamW(parameters) {
    static_assert(detail::refused<Nothing>, "betas are two options: write {.beta1 = 0.9, .beta2 = 0.999}");
  }
};

/// The norm of all gradients together, on their device; 0 without gradients. The host does not wait for the device.
///
/// Shapes: rank 0.
/// Dtypes: float64.
/// Throws: ValueError for a `norm_type` that is not a norm.
Tensor grad_norm(const std::vector<Tensor>& parameters, double norm_type = 2, Where where = {});
/// The factor that brings gradients of this norm (from `grad_norm`) to a norm of at most `max_norm`:
/// max_norm / (norm + 1e-6), as in PyTorch, but at most 1. It is also 1 if the norm is infinite or NaN; PyTorch then
/// multiplies by 0 or NaN.
///
/// Throws: ValueError for a `max_norm` below 0.
Tensor clip_factor(const Tensor& norm, double max_norm, Where where = {});
/// Multiplies all gradients with their `clip_factor`, and returns the norm that they had. If the norm is infinite or
/// NaN, the gradients stay as they are, so check it before `step`. Passing the factor to the step (`StepOptions`) is
/// faster.
///
/// Throws: as grad_norm and clip_factor.
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2,
                       Where where = {});
/// Clamps each number of the gradients to [−limit, limit].
///
/// Throws: ValueError for a limit below 0.
void clip_grad_value_(const std::vector<Tensor>& parameters, double limit, Where where = {});

}  // namespace linnet::nn
