#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "support/tasks/task.h"

namespace linnet::examples {

/// Throws UsageError if the ranks do not divide the shards evenly.
void check_ranks(const Settings& settings);

/// Makes the optimizer steps of a task.
class TrainingStep {
 public:
  TrainingStep(Task& task, const Settings& settings);

  /// Makes step `step` of the run: computes the gradients of its micro-batches, clips them and applies them at
  /// learning rate `lr`, and by `beta1` if it is given. Returns the mean loss. If the loss or the gradients are not
  /// finite, it applies nothing and throws ValueError. Errors of Task::batch are passed on.
  double operator()(int64_t step, double lr, std::optional<double> beta1 = {});

  /// The optimizer. With --shard-optimizer its state is divided among the processes.
  nn::ZeroRedundancyOptimizer& optimizer() { return divided_; }
  int64_t parameters() const;  ///< number of trained parameters
  /// Compares the parameters of all ranks. Throws ValueError, on all of them, if any bit differs.
  void check_same();
  /// The seconds that all steps waited for other ranks after their last gradient was computed.
  double waited_seconds() const { return parallel_ ? parallel_->waited_seconds() : 0; }

 private:
  /// The tensors of all micro-batches of a step: inputs, targets, and the others of each.
  std::vector<Tensor> batches_of(int64_t step) const;
  /// Loads the batches of a step into next_batches_, unless they are there.
  void make_ready(int64_t step);
  std::vector<Tensor> run(const std::vector<Tensor>& batches);
  /// Adds up the gradients of the micro-batches, and returns the mean loss.
  Tensor backward_all(const std::vector<Tensor>& batches);
  /// The same with the shards of all ranks.
  Tensor backward_shards(const std::vector<Tensor>& batches);
  /// Moves the batches to the model's device, and calls `run` without recording it.
  std::vector<Tensor> run_unrecorded(std::vector<Tensor> batches);

  Task& task_;
  Settings settings_;
  std::vector<Tensor> parameters_;
  nn::AdamW optimizer_;
  nn::ZeroRedundancyOptimizer divided_;
  std::unique_ptr<nn::DataParallel> parallel_;  ///< null for one process and one shard
  Recording recorded_;
  int64_t next_step_ = -1;  ///< the step of next_batches_
  std::vector<Tensor> next_batches_;
};

}  // namespace linnet::examples
