#pragma once

#include <map>
#include <optional>
#include <vector>

#include <linnet/core/device/backend.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/core/tensor.h>

namespace linnet::nn {

/// Parameters that share settings. What is absent, an optimizer fills in with its own when it is built.
struct ParameterGroup {
  std::vector<Tensor> parameters;
  std::optional<double> lr = {};
  std::optional<double> weight_decay = {};
};

/// Two groups: tensors of rank 2 and more with `weight_decay`, the others (gains, biases) with none.
std::vector<ParameterGroup> decay_matrices_only(const std::vector<Tensor>& parameters, double weight_decay);

/// What a step of an optimizer is told beside the gradients, each a tensor with one element on any device, or
/// undefined:
///
///     const Tensor norm = grad_norm(parameters);
///     optimizer.step({.grad_factor = clip_factor(norm, 1.0), .apply = lt(norm, INFINITY)});
struct StepOptions {
  /// Multiplies the gradients on their way into the step, which saves a pass over them: `grad()` stays as it is. 1
  /// where undefined. Of a floating dtype.
  Tensor grad_factor = {};
  /// Where false, nothing is changed and no step is counted. True where undefined. A bool.
  Tensor apply = {};
};

/// Changes parameters by their gradients.
///
/// A rule of one's own is its `update`. The base class has done what `StepOptions` ask by then: gradients are
/// multiplied with the factor, the step is counted, and one that does not apply never comes there:
///
///     struct SignSGD : nn::Optimizer {
///       SignSGD(std::vector<Tensor> parameters, double lr)
///           : Optimizer({{.parameters = std::move(parameters)}}, lr, /*weight_decay=*/0, /*moments=*/0) {}
///       void update(const std::vector<Update>& updates) override {
///         for (const Update& u : updates) u.slot->parameter -= sign(u.grad) * u.lr;
///       }
///     };
class Optimizer {
 public:
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;
  virtual ~Optimizer() = default;

  /// Changes every parameter that has a gradient, in one pass over its numbers; the others are left alone. Throws
  /// AutogradError when none has one, ShapeError for an option of another size, and DTypeError for one of another
  /// dtype.
  void step(const StepOptions& options = {}, Where where = {});
  /// Drops the gradients.
  void zero_grad();

  /// Sets the learning rate of every group. Throws ValueError for one that is negative or not finite, and DeviceError
  /// in a Recording, where it would stay what it was.
  void set_lr(double lr);
  /// Sets that of one group. Throws IndexError, too, where there is no such group.
  void set_lr(double lr, size_t group);
  /// Its groups, with the settings that each has now.
  const std::vector<ParameterGroup>& groups() const { return groups_; }

  /// What a checkpoint needs: moments and step counts of every parameter, by its position, and the groups'
  /// settings. The moments are the optimizer's own, which its next step edits: write them, or clone() them, before.
  TensorMap state() const;
  /// Puts it back. Throws ValueError when it is not the state of such an optimizer over parameters of these shapes.
  /// An error, be it for want of memory, leaves the optimizer as it was.
  void load_state(const TensorMap& state, Where where = {});

 protected:
  /// A parameter and what the optimizer keeps for it: moments, allocated by the first step, and its learning rate
  /// and steps so far, as one element each of the tensors of all.
  struct Slot {
    Tensor parameter;
    std::vector<Tensor> moments;
    Tensor lr, steps;
  };

  /// `moments` is how many tensors it keeps for a parameter. The kernels of a `fused` rule read `StepOptions`
  /// themselves, by `Update::scalars`, in the pass that changes the parameters; so the host waits for no device.
  /// Throws ValueError when there is nothing to train, when a parameter comes twice or is no leaf, and for settings
  /// that are negative or not finite; DTypeError for a parameter that is not float32 or float64.
  Optimizer(std::vector<ParameterGroup> groups, double lr, double weight_decay, size_t moments, bool fused = false);

  /// A parameter whose turn it is; the gradient is contiguous. `slot->steps` counts this step already, unless the
  /// rule is fused: then its kernel counts.
  struct Update {
    Slot* slot;
    Tensor grad;
    double lr, weight_decay;
    StepScalars scalars;  ///< of a fused rule
  };

  /// Changes the parameters in place, under NoGrad.
  virtual void update(const std::vector<Update>& updates) = 0;

 private:
  /// Writes the groups' learning rates to where kernels read them.
  void write_lr();
  /// Multiplies the gradients with the factor of their device, and counts the step.
  static void apply_options(std::vector<Update>& updates, std::map<Device, Tensor>& factors);

  std::vector<ParameterGroup> groups_;
  std::vector<Slot> slots_;              // in the order of the groups' parameters
  std::map<Device, Tensor> lr_, steps_;  // float64 and int64, an element a slot, on each device of the parameters
  size_t moments_;
  bool fused_;
};

/// As PyTorch's arguments.
struct SgdConfig {
  double lr = 1e-3;
  double momentum = 0;      ///< μ
  double dampening = 0;     ///< τ
  double weight_decay = 0;  ///< added to the gradient, times the parameter
  bool nesterov = false;    ///< needs momentum and no dampening
};

/// Stochastic gradient descent with momentum: v ← μ·v + (1 − τ)·g, p ← p − lr·v (or g + μ·v, Nesterov), as in
/// PyTorch.
class SGD : public Optimizer {
 public:
  /// Of all parameters alike, or by groups. Throws ValueError for no parameters, one that comes twice or is no leaf,
  /// and settings out of range, and DTypeError for one that is not float32 or float64.
  explicit SGD(std::vector<Tensor> parameters, const SgdConfig& config = {});
  explicit SGD(std::vector<ParameterGroup> groups, const SgdConfig& config = {});

 private:
  void update(const std::vector<Update>& updates) override;
  SgdConfig config_;
};

/// As PyTorch's arguments.
struct AdamConfig {
  double lr = 1e-3;
  double beta1 = 0.9;       ///< of the mean of gradients
  double beta2 = 0.999;     ///< of the mean of their squares
  double eps = 1e-8;        ///< added to the root
  double weight_decay = 0;  ///< added to the gradient
};

/// Adam (Kingma & Ba 2015, algorithm 1). Keeps two numbers a parameter.
class Adam : public Optimizer {
 public:
  /// The same. Throws ValueError for no parameters, for one that comes twice or is no leaf, and for settings out of
  /// range: betas are in [0, 1), the others 0 or more.
  explicit Adam(std::vector<Tensor> parameters, const AdamConfig& config = {});
  explicit Adam(std::vector<ParameterGroup> groups, const AdamConfig& config = {});

 protected:
  Adam(std::vector<ParameterGroup> groups, const AdamConfig& config, bool decoupled);

 private:
  void update(const std::vector<Update>& updates) override;
  AdamConfig config_;
  bool decoupled_ = false;
};

/// As PyTorch's arguments; the first four are Adam's.
struct AdamWConfig {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;  ///< p ← p − lr·weight_decay·p, apart from the gradient
};

/// Adam with decoupled weight decay (Loshchilov & Hutter 2019, algorithm 2).
class AdamW : public Adam {
 public:
  /// As Adam's.
  explicit AdamW(std::vector<Tensor> parameters, const AdamWConfig& config = {});
  explicit AdamW(std::vector<ParameterGroup> groups, const AdamWConfig& config = {});
};

/// The norm of all gradients together: a float64 of rank 0, on the device of the gradients, which the host need not
/// wait for. 0 without gradients. Throws ValueError for a `norm_type` that is no norm.
Tensor grad_norm(const std::vector<Tensor>& parameters, double norm_type = 2, Where where = {});
/// What gradients of a norm (as from `grad_norm`) are to be multiplied with so that it is at most `max_norm`:
/// max_norm / (norm + 1e-6) as in PyTorch, or 1 where that is more or the norm is infinite or NaN. Throws ValueError
/// for a `max_norm` below 0.
Tensor clip_factor(const Tensor& norm, double max_norm, Where where = {});
/// Multiplies all gradients with their `clip_factor`, and returns the norm before. When that is infinite or NaN the
/// gradients stay as they are: look at it before `step`. A step that takes the factor itself (`StepOptions`) is
/// faster. Throws as those two do.
Tensor clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2,
                       Where where = {});
/// Limits each number of the gradients to [−limit, limit]. Throws ValueError for a limit below 0.
void clip_grad_value_(const std::vector<Tensor>& parameters, double limit, Where where = {});

}  // namespace linnet::nn
