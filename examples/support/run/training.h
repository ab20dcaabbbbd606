#pragma once

#include <vector>

#include "support/run/progress.h"
#include "support/run/run_folder.h"
#include "support/tasks/task.h"

namespace linnet::examples {

/// What a training run came to.
struct TrainingResult {
  std::vector<Metrics> history;  ///< one entry an evaluation, the first one before training
  std::vector<StepLoss> losses;  ///< of about 200 single steps
  Task::Evaluation final;        ///< on settings.eval_batches
  Task::Evaluation full;         ///< on all validation data
  double ms_per_step = 0;        ///< median, evaluations aside
  double tokens_per_second = 0;
  int64_t parameters = 0;
  int64_t peak_bytes = 0;
};

/// Steps of the run: settings.steps, or its epochs in steps. Throws UsageError when those are too few for the other
/// settings.
int64_t total_steps(const Settings& settings, const Task& task);

/// Trains `task` and writes metrics, checkpoints, weights and samples into settings.out, a RunFolder. Goes on from
/// its checkpoint when settings.resume. Throws before that is made when no step can be; ValueError at the first loss
/// that is not finite, and Interrupted after Ctrl-C or SIGTERM, with a checkpoint written.
TrainingResult train(Task& task, const Settings& settings);

enum class Against : uint8_t { steps, seconds };

/// The validation losses of runs, by their mechanisms, as a picture; `what` names their data and settings. A single
/// run's picture has the losses of its training steps too.
void draw_losses(const std::vector<std::pair<std::string, const TrainingResult*>>& runs, Against against,
                 const std::string& title, const std::string& what, const std::filesystem::path& path);

}  // namespace linnet::examples
