#pragma once

#include <linnet/linnet.h>

namespace linnet::examples {

/// A copy of a model's weights at the evaluation with the highest accuracy so far. It is a part of a checkpoint, so
/// that a resumed run ends with the same weights.
class BestWeights {
 public:
  /// The model must outlive it.
  explicit BestWeights(nn::Module& model);

  /// Copies the model's weights if the accuracy is higher than all earlier ones.
  void offer(int64_t step, double accuracy);
  /// Copies the best weights into the model.
  void restore() const;
  int64_t step() const;  ///< of the best evaluation

  TensorMap state() const;
  /// Throws: ValueError for the state of another model.
  void load_state(const TensorMap& state);

 private:
  nn::Module& model_;
  TensorMap weights_;
  Tensor step_, accuracy_;
};

}  // namespace linnet::examples
