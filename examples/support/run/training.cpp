#include "support/run/training.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "support/bench/floor.h"
#include "support/bench/timing.h"
#include "support/ranks.h"
#include "support/run/checkpoint.h"
#include "support/run/loss_chart.h"
#include "support/run/profile_report.h"
#include "support/run/training_step.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

/// Profiles a few of a run's steps after a warm-up.
class StepProfile {
 public:
  static constexpr int64_t kLast = ProfiledSteps::kWarmUp + ProfiledSteps::kSteps;

  /// `what` names the run in the heading.
  StepProfile(std::string what, Device device) : what_(std::move(what)), device_(device) {}

  /// Runs one step.
  double run(const std::function<double()>& step) {
    ++done_;
    if (done_ <= ProfiledSteps::kWarmUp || done_ > kLast) return step();
    double loss = 0;
    steps_.add([&] { loss = step(); });
    return loss;
  }

  /// After the last step to be profiled: writes and prints the report.
  void report(const RunFolder& folder) const {
    if (done_ != kLast) return;
    const bool on_cpu = device_ == Device::cpu;  // only CPU products have a floor
    const double floor = on_cpu ? measure_floor(products_of(steps_.calls_of_one())).median_ms : 0;
    const std::string text = profile_text(what_, steps_, floor);
    write_profile(folder.path(), text, steps_);
    fmt::print("\n{}\n", text);
  }

 private:
  std::string what_;
  Device device_;
  int64_t done_ = 0;
  ProfiledSteps steps_;
};

/// The rise and fall of the schedule "one-cycle-linear", as PyTorch's OneCycleLR with straight lines.
nn::schedule::OneCycle linear_cycle(const Settings& s, int64_t steps) {
  return {.max_lr = s.lr,
          .steps = steps,
          .pct_start = static_cast<double>(s.warmup) / static_cast<double>(steps),
          .anneal_strategy = nn::schedule::AnnealStrategy::linear};
}

nn::Schedule make_schedule(const Settings& s, int64_t steps) {
  if (s.schedule == "one-cycle") return nn::schedule::one_cycle({.max_lr = s.lr, .steps = steps});
  if (s.schedule == "one-cycle-linear") return nn::schedule::one_cycle(linear_cycle(s, steps));
  return nn::schedule::warmup_cosine({.lr = s.lr, .min_lr = s.min_lr, .warmup = s.warmup, .steps = steps});
}

/// Throws UsageError when --profile needs more steps than are `left`.
void check_profile(const Settings& s, int64_t left) {
  if (!s.profile || left >= StepProfile::kLast) return;
  throw UsageError(
      fmt::format("--profile times ten steps after ten others, and the run has only {} to make; leave it out", left));
}

/// The command that resumes a run with steps `left`: the one that began it, with --resume.
std::string command_to_resume(const Settings& s, int64_t left) {
  std::vector<std::string> words = s.command;
  const auto drop = [&](const std::string& flag) {
    std::erase_if(words, [&](const std::string& word) { return word == flag || word.starts_with(flag + "="); });
  };
  if (left < StepProfile::kLast) drop("--profile");
  drop("--resume");
  words.emplace_back("--resume");
  return command_line(std::move(words));
}

/// The most bytes that a run writes: the final weights, two checkpoints (weights, AdamW's two moments, the best
/// weights) while one replaces the other, and some space for logs and pictures. A resumed run has one of the
/// checkpoints already.
int64_t bytes_to_write(int64_t parameters, const Settings& s) {
  const int64_t checkpoint = s.keep_best ? 4 : 3, copies = (s.resume ? 1 : 2) * checkpoint + 1;
  constexpr int64_t kRest = int64_t{1} << 18;
  return copies * parameters * static_cast<int64_t>(sizeof(float)) + kRest;
}

/// The folder of a run on rank 0, which writes for all; null on the other ranks.
std::unique_ptr<RunFolder> folder_of_rank(const Settings& settings, const Task& task) {
  std::unique_ptr<RunFolder> folder;
  on_first_rank([&] { folder = std::make_unique<RunFolder>(settings, task.data_name(), note_of(settings, task)); });
  return folder;
}

/// The results that a finished run has written. None if they are damaged: then they are written anew.
std::optional<Results> results_before(const std::filesystem::path& folder) {
  try {
    return read_results(folder);
  } catch (const IoError&) {
    return std::nullopt;
  }
}

/// The training loop of one run: begin(), step() until done(), finish().
class Run {
 public:
  Run(Task& task, const Settings& settings);

  /// Saves the first checkpoint, or with --resume loads the last one. Evaluates if that was not done at this step.
  void begin();
  bool done() const { return at_.step >= steps_; }
  /// Makes one optimizer step, and then the evaluation, checkpoint and progress line that are due.
  void step();
  /// Evaluates on all validation data and writes the final files.
  TrainingResult finish();
  /// The command that resumes the run from its last checkpoint.
  std::string resume_command() const { return command_to_resume(s_, steps_ - at_.step); }

 private:
  void resume();
  void evaluate();
  void show(double loss);
  /// Writes a checkpoint. Flushes the logs first, since a resumed run logs only the steps after its checkpoint.
  void save();
  /// The message of an interrupted run, after it is saved.
  Interrupted stopped() const;
  [[noreturn]] void stop();
  /// All tokens divided by the time of all steps. A median would mislead, since batches may have different lengths.
  double tokens_per_second() const;
  /// The median time of a step: of those that this program made, or, if it resumed a run for fewer than half of the
  /// steps, of the medians that the run logged.
  double ms_per_step() const;
  /// The number of processes, and the means over the steps that this program made.
  Processes processes() const;

  Task& task_;
  const Settings& s_;
  const int64_t steps_;      // before folder_: bad steps and rates throw before a folder is created
  const int64_t log_every_;  // steps between the lines of train_loss.csv
  const nn::Schedule rate_;
  std::optional<nn::Schedule> beta1_;  // if it changes
  std::unique_ptr<RunFolder> folder_;  // only on rank 0
  TrainingStep train_step_;
  Progress progress_;
  std::optional<StepProfile> profile_;
  Checkpoint::Position at_;
  std::optional<BestWeights> best_;
  Checkpoint checkpoint_;
  TrainingResult result_;
  std::vector<double> step_times_;  // milliseconds of the steps since begin()
  double seconds_ = 0;              // over all steps of the run
  int64_t peak_bytes_ = 0;          // of the steps since begin(), without evaluations
  int64_t sent_before_ = ranks().bytes_sent();
};

Run::Run(Task& task, const Settings& settings)
    : task_(task),
      s_(settings),
      steps_(total_steps(s_, task)),
      log_every_(std::max<int64_t>(1, steps_ / 200)),
      rate_(make_schedule(s_, steps_)),
      folder_(folder_of_rank(s_, task)),
      train_step_(task, s_),
      progress_(stdout, steps_, s_.attention),
      best_(s_.keep_best ? std::optional<BestWeights>(task.model()) : std::nullopt),
      checkpoint_(s_.out, task.model(), train_step_.optimizer(), at_, task.metadata(), best_ ? &*best_ : nullptr) {
  if (s_.cycle_momentum) beta1_ = nn::schedule::one_cycle_momentum(linear_cycle(s_, steps_));
  result_.parameters = train_step_.parameters();
  on_first_rank([&] { folder_->require_room(bytes_to_write(result_.parameters, s_)); });
}

void Run::begin() {
  if (s_.resume) {
    resume();
  } else {
    checkpoint_.save();
    on_first_rank([&] { folder_->begin(); });
  }
  if (s_.profile && folder_)
    profile_.emplace(fmt::format("{} on {}", s_.attention, task_.data_name()), device_of(s_));
  // A run that was interrupted during an evaluation, or that is resumed with fewer steps and so ends at its
  // checkpoint, was not evaluated there.
  const bool is_due = at_.step % s_.eval_every == 0 || done();
  const bool lacks_it = result_.history.empty() || (is_due && result_.history.back().step < at_.step);
  if (of_first_rank(lacks_it)) evaluate();
}

void Run::resume() {
  checkpoint_.load();
  check_profile(s_, steps_ - at_.step);
  if (!folder_) return;
  folder_->go_on(!done());
  // A checkpoint from before the evaluation of its step has neither the new sum of losses nor the best weights, so
  // that evaluation is repeated, even if an earlier resumed run made it. The first checkpoint is always from before.
  const bool is_before_evaluation = at_.loss_count > 0 || (best_ && at_.step == 0);
  result_.history = folder_->rewind(is_before_evaluation ? at_.step - 1 : at_.step);
  result_.losses = folder_->rewind_losses(at_.step);
  if (result_.history.empty()) return;  // the run ended before its first evaluation
  const Metrics& last = result_.history.back();
  result_.final = {.loss = last.val_loss, .accuracy = last.accuracy, .measures = last.measures};
  const int64_t since = at_.step - last.step;
  const double estimate = static_cast<double>(since) * last.ms_per_step / 1e3;
  seconds_ = last.seconds + (since > 0 ? at_.seconds.value_or(estimate) : 0);
}

void Run::step() {
  reset_peak_memory(device_of(s_));
  const Clock::time_point begin = Clock::now();
  const auto do_step = [&] {
    return train_step_(at_.step, rate_(at_.step), beta1_ ? std::optional((*beta1_)(at_.step)) : std::nullopt);
  };
  const double loss = profile_ ? profile_->run(do_step) : do_step();
  step_times_.push_back(milliseconds_since(begin));
  seconds_ += step_times_.back() / 1e3;
  peak_bytes_ = std::max(peak_bytes_, memory_stats(device_of(s_)).peak);
  if (profile_) profile_->report(*folder_);
  at_.loss_sum += loss;
  ++at_.loss_count;
  ++at_.step;
  if (at_.step % log_every_ == 0) {
    result_.losses.push_back({at_.step, loss});
    if (folder_) folder_->log(result_.losses.back());
  }
  if (at_.step % s_.eval_every == 0 || done()) evaluate();
  if (s_.checkpoint_every > 0 && at_.step % s_.checkpoint_every == 0) save();
  if (on_any_rank(interrupted())) stop();
  show(loss);
}

void Run::evaluate() {
  train_step_.check_same();
  try {
    result_.final = task_.evaluate(s_.eval_batches);
  } catch (const Interrupted&) {
    stop();
  }
  const Metrics metrics{.step = at_.step,
                        .train_loss = at_.loss_count > 0 ? at_.loss_sum / static_cast<double>(at_.loss_count) : NAN,
                        .val_loss = result_.final.loss,
                        .accuracy = result_.final.accuracy,
                        .measures = result_.final.measures,
                        .lr = rate_(at_.step),
                        .seconds = seconds_,
                        .ms_per_step = median(step_times_),
                        .tokens_per_second = tokens_per_second(),
                        .peak_bytes = peak_bytes_};
  at_.loss_sum = 0;
  at_.loss_count = 0;
  if (best_) best_->offer(at_.step, result_.final.accuracy.value());
  if (folder_) folder_->log(metrics);
  result_.history.push_back(metrics);
}

void Run::show(double loss) {
  std::vector<ProgressField> fields{{"loss", fmt::format("{:.3f}", loss)},
                                    {"val", fmt::format("{:.3f}", result_.final.loss)}};
  if (result_.final.accuracy) fields.push_back({"acc", fmt::format("{:.2f}%", 100 * *result_.final.accuracy)});
  for (const auto& [name, value] : result_.final.measures) fields.push_back({name, fmt::format("{:.4f}", value)});
  progress_.update(at_.step, std::move(fields));
}

void Run::save() {
  at_.seconds = seconds_ - (result_.history.empty() ? 0 : result_.history.back().seconds);
  on_first_rank([&] { folder_->flush(); });
  checkpoint_.save();
}

Interrupted Run::stopped() const {
  return Interrupted(fmt::format("stopped at step {} of {}; go on with: {}", at_.step, steps_, resume_command()));
}

void Run::stop() {
  save();
  throw stopped();
}

TrainingResult Run::finish() {
  progress_.finish();
  save();
  result_.tested_step = best_ ? best_->step() : at_.step;
  if (best_) best_->restore();
  result_.optimizer_bytes = largest_of_ranks(train_step_.optimizer().state_bytes());
  try {
    result_.full = task_.test();
  } catch (const Interrupted&) {
    throw stopped();  // all is saved, and the weights may now be the best ones
  }
  result_.constant_accuracy = task_.constant_accuracy();
  if (!folder_) return std::move(result_);
  result_.tokens_per_second = tokens_per_second();
  if (const auto before = step_times_.empty() ? results_before(folder_->path()) : std::nullopt) {
    result_.ms_per_step = before->ms_per_step;  // the run was finished already, and no step has been made since
    result_.processes = before->processes;
  } else {
    result_.ms_per_step = ms_per_step();
    result_.processes = processes();
  }
  result_.peak_bytes = peak_bytes_;
  for (const Metrics& m : result_.history) result_.peak_bytes = std::max(result_.peak_bytes, m.peak_bytes);
  task_.model().save(folder_->path() / "model.safetensors", task_.metadata());
  write_results(folder_->path(), result_.results());
  if (const std::string text = task_.sample(500); !text.empty()) folder_->write_text("samples.txt", text + "\n");
  const LossCurve curve{.label = s_.attention,
                        .color = mechanism_index(s_.attention),
                        .history = result_.history,
                        .losses = result_.losses};
  write_png(loss_chart({curve}, Against::steps, fmt::format("Training {}", s_.attention),
                       fmt::format("{}, {}, seed {}", task_.data_name(), describe(s_), s_.seed)),
            folder_->path() / "loss.png");
  return std::move(result_);
}

Processes Run::processes() const {
  const auto steps = static_cast<double>(std::max<size_t>(1, step_times_.size()));
  Processes all{.count = ranks().world_size(), .waited_ms_per_step = 1e3 * train_step_.waited_seconds() / steps};
  if (s_.reduce == "in-order")
    all.sent_bytes_per_step = static_cast<double>(ranks().bytes_sent() - sent_before_) / steps;
  return all;
}

double Run::ms_per_step() const {
  if (2 * std::ssize(step_times_) >= steps_) return median(step_times_);
  std::vector<double> logged;
  for (const Metrics& metrics : result_.history) {
    if (metrics.ms_per_step > 0) logged.push_back(metrics.ms_per_step);
  }
  return median(logged);
}

double Run::tokens_per_second() const {
  const double tokens = static_cast<double>(at_.step * task_.tokens_per_batch() * s_.accumulate);
  return seconds_ > 0 ? tokens / seconds_ : 0;
}

/// Ends a run that was interrupted while its data were read or made. Names the command that goes on, if a run began.
void stop_before_first_step(const Settings& s, bool others_began) {
  if (!on_any_rank(interrupted())) return;
  const std::string out = s.out.string();
  std::string message = s.resume ? fmt::format("stopped before another step; the run in {} is as it was", out)
                                 : fmt::format("stopped before the first step; nothing was written to {}", out);
  if (s.resume || others_began) message += "; go on with: " + command_to_resume(s, StepProfile::kLast);
  throw Interrupted(message);
}

}  // namespace

Results TrainingResult::results() const {
  return {.step = tested_step,
          .loss = full.loss,
          .accuracy = full.accuracy,
          .constant_accuracy = constant_accuracy,
          .measures = full.measures,
          .ms_per_step = ms_per_step,
          .parameters = parameters,
          .peak_bytes = peak_bytes,
          .processes = processes};
}

int64_t total_steps(const Settings& s, const Task& task) {
  if (s.epochs == 0) return s.steps;
  const int64_t batches = s.epochs * task.batches_per_epoch(), steps = batches / s.accumulate;
  if (batches == 0) {
    throw UsageError(fmt::format(
        "--batch {}: the training data are too few for one; lower it, or give --steps instead of --epochs", s.batch));
  }
  if (steps == 0) {
    throw UsageError(fmt::format("--accumulate {}: all {} epochs have only {} batches; lower it or --batch",
                                 s.accumulate, s.epochs, batches));
  }
  if (s.warmup > 0 && s.warmup >= steps) {
    throw UsageError(fmt::format("--warmup {} leaves nothing of the {} steps of --epochs {}; make it shorter",
                                 s.warmup, steps, s.epochs));
  }
  check_profile(s, steps);
  return steps;
}

TrainingResult train(Task& task, const Settings& settings, bool others_began) {
  check_same_start(settings, task.data_name());
  stop_before_first_step(settings, others_began);
  Run run(task, settings);
  run.begin();
  try {
    while (!run.done()) run.step();
    return run.finish();
  } catch (const IoError& error) {  // such as a full disk
    throw IoError(fmt::format("{}; then go on with: {}", error.what(), run.resume_command()));
  }
}

}  // namespace linnet::examples
