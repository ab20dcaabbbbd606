#pragma once

#include <linnet/nn/module.h>

namespace linnet::nn {

/// A guard: while it lives, the model is in evaluation mode.
class Evaluation {
 public:
  [[nodiscard("give it a name, Evaluation evaluation(model);, or it ends in its own line")]] explicit Evaluation(
      Module& model)
      : model_(model), was_training_(model.training()) {
    model.eval();
  }
  ~Evaluation() { model_.train(was_training_); }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  Module& model_;
  bool was_training_;
};

}  // namespace linnet::nn
