#pragma once

#include <vector>

#include <linnet/core/files/safetensors.h>
#include <linnet/core/tensor.h>

namespace linnet::nn {

/// Running averages of parameters, a ← a + (1 − decay)·(p − a), like PyTorch's AveragedModel with
/// get_ema_multi_avg_fn. The first update copies the parameters. Averaged weights often do better in evaluation than
/// the last ones:
///
///     nn::ExponentialMovingAverage average(model.parameters(), 0.999);
///     backward(cross_entropy(model(inputs), targets));
///     optimizer.step();
///     average.update();
///     {
///       const nn::AveragedWeights averaged(average);
///       std::cout << accuracy(model(inputs), targets);
///     }  // the model has its own weights again
///
/// Buffers are not averaged.
class ExponentialMovingAverage {
 public:
  /// Throws: ValueError for a decay outside [0, 1].
  explicit ExponentialMovingAverage(std::vector<Tensor> parameters, double decay = 0.999);

  /// Moves the averages towards the parameters. Call it after each step of the optimizer.
  ///
  /// Cost: a few passes over the parameters.
  void update();

  /// The averages, in the order of the parameters. `update` edits them.
  const std::vector<Tensor>& averages() const { return averages_; }

  /// The state for a checkpoint: the averages by position, and whether there was an update. They are not copied.
  TensorMap state() const;
  /// Restores a state.
  ///
  /// Throws: ValueError, before it copies any, for the state of parameters of other shapes or dtypes.
  void load_state(const TensorMap& state, Where where = {});

 private:
  friend class AveragedWeights;

  std::vector<Tensor> parameters_, averages_;
  Tensor updated_;  // bool
  double decay_;
};

/// A guard: while it lives, the parameters have the values of the averages. Then it restores their own values, bit
/// for bit.
///
/// Cost: a copy of the parameters.
class AveragedWeights {
 public:
  explicit AveragedWeights(const ExponentialMovingAverage& average);  ///< copies the averages into the parameters
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  std::vector<Tensor> parameters_, own_values_;
};

}  // namespace linnet::nn
