#pragma once

#include <optional>
#include <vector>

#include "support/run/progress.h"
#include "support/run/results.h"
#include "support/run/run_folder.h"
#include "support/tasks/task.h"

namespace linnet::examples {

/// The results of a training run.
struct TrainingResult {
  std::vector<Metrics> history;                  ///< one entry per evaluation; the first is before training
  std::vector<StepLoss> losses;                  ///< of about 200 single steps
  Task::Evaluation final;                        ///< the last evaluation on settings.eval_batches batches
  Task::Evaluation full;                         ///< Task::test of the final weights
  std::optional<double> constant_accuracy = {};  ///< Task::constant_accuracy
  int64_t tested_step = 0;  ///< the step of these weights: the last, or the best with settings.keep_best
  double ms_per_step = 0;   ///< median, without evaluations
  double tokens_per_second = 0;
  Processes processes = {};
  int64_t optimizer_bytes = 0;  ///< of the optimizer's state, on the rank that has most of it
  int64_t parameters = 0;
  int64_t peak_bytes = 0;  ///< the most memory of a training step

  /// The numbers for results.json.
  Results results() const;
};

/// The number of steps of the run, settings.steps or its epochs in steps. Throws UsageError if the epochs have too
/// few steps for the other settings.
int64_t total_steps(const Settings& settings, const Task& task);

/// Trains `task` and writes metrics, checkpoints, weights and samples into settings.out, a RunFolder. If
/// settings.resume, it continues from the checkpoint there. Settings that allow no step throw before the folder is
/// created. Throws ValueError at the first loss that is not finite, and Interrupted after Ctrl-C or SIGTERM, once a
/// checkpoint is written, or at once if no step has been made. Then the message names the command that goes on only
/// if there is a run to resume: this one, or another one of the program, if `others_began`.
///
/// Several ranks take the same steps. Each evaluates a part of the batches, and all get the same figures. Rank 0
/// writes the files. The results of the other ranks lack the times of a step.
TrainingResult train(Task& task, const Settings& settings, bool others_began = false);

}  // namespace linnet::examples
