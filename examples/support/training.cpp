#include "support/training.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>

#include <fmt/format.h>

#include "support/checkpoint.h"
#include "support/floor.h"
#include "support/plot.h"
#include "support/profile_report.h"
#include "support/program.h"
#include "support/timing.h"
#include "support/training_step.h"

namespace linnet::examples {
namespace {

/// Profiles a few of a run's steps, once those before have warmed up.
class StepProfile {
 public:
  static constexpr int64_t kWarmUp = 10, kSteps = 10;

  /// `what` is the run that it is of.
  StepProfile(std::string what, Device device) : what_(std::move(what)), device_(device) {}

  /// Does one step, and after the last one of them writes and prints what came of it.
  double run(const std::function<double()>& step, RunFolder& folder) {
    if (++done_ <= kWarmUp || done_ > kWarmUp + kSteps) return step();
    const Profile profile;
    const double loss = step();
    times_.push_back(profile.elapsed_ms());
    calls_.insert(calls_.end(), profile.calls().begin(), profile.calls().end());
    for (auto call = calls_.end() - std::ssize(profile.calls()); call != calls_.end(); ++call)
      call->begin_ms += begin_;
    begin_ += times_.back();
    if (done_ == kWarmUp + kSteps) report(folder);
    return loss;
  }

 private:
  void report(const RunFolder& folder) const {
    const auto calls_per_step = std::ssize(calls_) / kSteps;
    const bool on_cpu = device_ == Device::cpu;  // whose products the floor is made of
    const double floor = on_cpu ? floor_ms(products_of({calls_.begin(), calls_.begin() + calls_per_step})) : 0;
    const double step_ms = median(times_);
    const std::string text = fmt::format("{}, {} steps: {:.2f} ms each{}\n{}", what_, kSteps, step_ms,
                                         on_cpu ? fmt::format(", their matrix products alone {:.2f} ms", floor)
                                                : ", the GPU waited for at each kernel",
                                         profile_table(calls_, kSteps, step_ms, floor));
    folder.write_text("profile.txt", text);
    folder.write_text("trace.json", trace_json(calls_));
    fmt::print("\n{}\n", text);
  }

  std::string what_;
  Device device_;
  int64_t done_ = 0;
  double begin_ = 0;  ///< of the step under way, as if all had followed each other without a pause
  std::vector<double> times_;
  std::vector<KernelCall> calls_;
};

nn::Schedule make_schedule(const Settings& s, int64_t steps) {
  if (s.schedule == "one-cycle") return nn::schedule::one_cycle({.max_lr = s.lr, .steps = steps});
  return nn::schedule::warmup_cosine({.lr = s.lr, .min_lr = s.min_lr, .warmup = s.warmup, .steps = steps});
}

/// The command that goes on with a run that stopped: that which began it, and --resume.
std::string resume_command(const Settings& s) {
  const bool resumed = s.command.find(" --resume") != std::string::npos;
  return s.command + (resumed ? "" : " --resume");
}

/// What a run writes at the most: two checkpoints of the weights and AdamW's moments while one takes the other's
/// place, the weights alone, and less of pictures and lines. A resumed one has a checkpoint already.
int64_t bytes_to_write(int64_t parameters, bool resume) {
  constexpr int64_t kCheckpoint = 3, kRest = int64_t{1} << 18;
  const int64_t copies = (resume ? 1 : 2) * kCheckpoint + 1;
  return copies * parameters * static_cast<int64_t>(sizeof(float)) + kRest;
}

}  // namespace

int64_t total_steps(const Settings& s, const Task& task) {
  if (s.epochs == 0) return s.steps;
  const int64_t steps = s.epochs * task.batches_per_epoch() / s.accumulate;
  if (steps > 0) return steps;
  throw UsageError(fmt::format("--accumulate {}: all {} epochs have only {} batches", s.accumulate, s.epochs,
                               s.epochs * task.batches_per_epoch()));
}

TrainingResult train(Task& task, const Settings& s) {
  const int64_t steps = total_steps(s, task);  // refuses, before there is a folder
  RunFolder folder(s, task.data_name());
  const nn::Schedule rate = make_schedule(s, steps);
  TrainingStep train_step(task, s);
  const Checkpoint checkpoint(folder.path(), task.model(), train_step.optimizer(), task.metadata());

  TrainingResult result;
  result.parameters = train_step.parameters();
  folder.require_room(bytes_to_write(result.parameters, s.resume));
  Checkpoint::Position at;
  if (s.resume) {
    at = checkpoint.load();
    result.history = folder.rewind(at.step);
    if (!result.history.empty()) {
      result.final = {.loss = result.history.back().val_loss, .accuracy = result.history.back().accuracy};
    }
  } else {
    checkpoint.save(at);
    folder.begin();
  }

  reset_peak_memory(device_of(s));
  const double tokens = static_cast<double>(task.tokens_per_batch() * s.accumulate);
  std::vector<double> step_times;
  double seconds = result.history.empty() ? 0 : result.history.back().seconds;

  const auto evaluate = [&] {
    const Task::Evaluation evaluation = task.evaluate(s.eval_batches);
    const double ms = median(step_times);
    Metrics metrics{.step = at.step,
                    .train_loss = at.loss_count > 0 ? at.loss_sum / static_cast<double>(at.loss_count) : NAN,
                    .val_loss = evaluation.loss,
                    .accuracy = evaluation.accuracy,
                    .lr = rate(at.step),
                    .seconds = seconds,
                    .ms_per_step = ms,
                    .tokens_per_second = ms > 0 ? tokens / ms * 1e3 : 0,
                    .peak_bytes = memory_stats(device_of(s)).peak};
    at.loss_sum = 0;
    at.loss_count = 0;
    folder.log(metrics);
    result.history.push_back(metrics);
    result.final = evaluation;
  };

  Progress progress(stdout, steps, s.attention);
  std::optional<StepProfile> profile;
  if (s.profile) profile.emplace(fmt::format("{} on {}", s.attention, task.data_name()), device_of(s));
  if (result.history.empty()) evaluate();
  while (at.step < steps) {
    const Clock::time_point begin = Clock::now();
    const auto do_step = [&] { return train_step(at.step, rate(at.step)); };
    const double loss = profile ? profile->run(do_step, folder) : do_step();
    step_times.push_back(milliseconds_since(begin));
    seconds += step_times.back() / 1e3;
    at.loss_sum += loss;
    ++at.loss_count;
    ++at.step;
    if (at.step % s.eval_every == 0 || at.step == steps) evaluate();
    if (s.checkpoint_every > 0 && at.step % s.checkpoint_every == 0) checkpoint.save(at);
    if (interrupted()) {
      checkpoint.save(at);
      throw Interrupted(fmt::format("stopped at step {} of {}; go on with: {}", at.step, steps, resume_command(s)));
    }
    std::vector<ProgressField> fields{{"loss", fmt::format("{:.3f}", loss)},
                                      {"val", fmt::format("{:.3f}", result.final.loss)}};
    if (result.final.accuracy) fields.push_back({"acc", fmt::format("{:.2f}%", 100 * *result.final.accuracy)});
    progress.update(at.step, std::move(fields));
  }
  progress.finish();
  checkpoint.save(at);

  result.full = task.evaluate(0);
  // A resumed run that was at its end has made no step now.
  result.ms_per_step = step_times.empty() ? result.history.back().ms_per_step : median(step_times);
  result.tokens_per_second = result.ms_per_step > 0 ? tokens / result.ms_per_step * 1e3 : 0;
  result.peak_bytes = std::max(memory_stats(device_of(s)).peak, result.history.back().peak_bytes);
  task.model().save(folder.path() / "model.safetensors", task.metadata());
  if (const std::string text = task.sample(500); !text.empty()) folder.write_text("samples.txt", text + "\n");
  draw_losses({{s.attention, &result}}, Against::steps, fmt::format("Training {}", s.attention), task.data_name(),
              folder.path() / "loss.png");
  return result;
}

void draw_losses(const std::vector<std::pair<std::string, const TrainingResult*>>& runs, Against against,
                 const std::string& title, const std::string& data_name, const std::filesystem::path& path) {
  const bool steps = against == Against::steps;
  LineChart chart{.title = title,
                  .subtitle = "data: " + data_name,
                  .x_label = steps ? "step" : "seconds of training",
                  .y_label = "validation loss"};
  for (const auto& [name, result] : runs) {
    Series series{.label = name};
    for (const Metrics& m : result->history) {
      series.x.push_back(steps ? static_cast<double>(m.step) : m.seconds);
      series.y.push_back(m.val_loss);
    }
    chart.series.push_back(std::move(series));
  }
  write_png(chart, path);
}

}  // namespace linnet::examples
