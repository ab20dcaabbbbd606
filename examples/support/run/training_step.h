#pragma once

#include <vector>

#include "support/tasks/task.h"

namespace linnet::examples {

/// One optimizer step of a task after another.
class TrainingStep {
 public:
  TrainingStep(Task& task, const Settings& settings);

  /// Step `step` of the run: the gradients of its micro-batches, clipped and applied at learning rate `lr`. Returns
  /// the mean loss. Throws ValueError, with nothing applied, when the loss or the gradients are not finite, and
  /// whatever making its batches throws.
  double operator()(int64_t step, double lr);

  nn::Optimizer& optimizer() { return optimizer_; }
  int64_t parameters() const;  ///< numbers that it trains

 private:
  /// The inputs and targets of all its micro-batches.
  std::vector<Tensor> batches_of(int64_t step) const;
  /// Has them in next_batches_.
  void make_ready(int64_t step);
  std::vector<Tensor> run(const std::vector<Tensor>& batches);

  Task& task_;
  Settings settings_;
  std::vector<Tensor> parameters_;
  nn::AdamW optimizer_;
  Recording recorded_;
  int64_t next_step_ = -1;  ///< whose batches are ready
  std::vector<Tensor> next_batches_;
};

}  // namespace linnet::examples
