#include "support/training.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <fmt/format.h>

#include "support/checkpoint.h"
#include "support/format.h"
#include "support/plot.h"
#include "support/program.h"

namespace linnet::examples {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

nn::Schedule make_schedule(const Settings& s, int64_t steps) {
  if (s.schedule == "one-cycle") return nn::schedule::one_cycle({.max_lr = s.lr, .steps = steps});
  return nn::schedule::warmup_cosine({.lr = s.lr, .min_lr = s.min_lr, .warmup = s.warmup, .steps = steps});
}

nn::AdamW make_optimizer(const std::vector<Tensor>& parameters, const Settings& s) {
  const nn::AdamWConfig config{.lr = s.lr, .beta1 = s.beta1, .beta2 = s.beta2, .weight_decay = s.weight_decay};
  return s.decay_matrices_only ? nn::AdamW(nn::decay_matrices_only(parameters, s.weight_decay), config)
                               : nn::AdamW(parameters, config);
}

/// One step: gradients of all micro-batches, clipped, applied. Returns the mean loss.
double train_step(Task& task, nn::Optimizer& optimizer, const std::vector<Tensor>& parameters, const Settings& s,
                  int64_t step) {
  double total = 0;
  for (int64_t i = 0; i < s.accumulate; ++i) {
    const Tensor loss = task.loss(step * s.accumulate + i);
    backward(s.accumulate == 1 ? loss : loss / static_cast<double>(s.accumulate));
    total += loss.item<double>();
  }
  total /= static_cast<double>(s.accumulate);
  const double norm = s.clip > 0 ? nn::clip_grad_norm_(parameters, s.clip) : 0;
  if (!std::isfinite(total) || !std::isfinite(norm)) {
    throw ValueError(
        fmt::format("the loss is {} and the gradients' norm {} at step {}; lower --lr, raise --warmup or "
                    "set --clip (what was saved before is untouched)",
                    total, norm, step));
  }
  optimizer.step();
  optimizer.zero_grad();
  return total;
}

}  // namespace

int64_t total_steps(const Settings& s, const Task& task) {
  return s.epochs > 0 ? s.epochs * task.batches_per_epoch() / s.accumulate : s.steps;
}

TrainingResult train(Task& task, const Settings& s, RunFolder& folder) {
  const int64_t steps = total_steps(s, task);
  const nn::Schedule rate = make_schedule(s, steps);
  const std::vector<Tensor> parameters = task.model().parameters();
  nn::AdamW optimizer = make_optimizer(parameters, s);
  const Checkpoint checkpoint(folder.path(), task.model(), optimizer, task.metadata());

  TrainingResult result;
  int64_t step = 0;
  if (s.resume) {
    step = checkpoint.load();
    result.history = folder.rewind(step);
    if (!result.history.empty()) {
      result.final = {.loss = result.history.back().val_loss, .accuracy = result.history.back().accuracy};
    }
  }

  for (const Tensor& parameter : parameters) result.parameters += parameter.numel();
  reset_peak_memory();
  const double tokens = static_cast<double>(task.tokens_per_batch() * s.accumulate);
  std::vector<double> step_times;
  double loss_sum = 0;
  int64_t loss_count = 0;

  const auto evaluate = [&] {
    const Task::Evaluation evaluation = task.evaluate(s.eval_batches);
    const double ms = median(step_times);
    Metrics metrics{.step = step,
                    .train_loss = loss_count > 0 ? loss_sum / static_cast<double>(loss_count) : NAN,
                    .val_loss = evaluation.loss,
                    .accuracy = evaluation.accuracy,
                    .lr = rate(step),
                    .ms_per_step = ms,
                    .tokens_per_second = ms > 0 ? tokens / ms * 1e3 : 0,
                    .peak_bytes = memory_stats().peak};
    loss_sum = 0;
    loss_count = 0;
    folder.log(metrics);
    result.history.push_back(metrics);
    result.final = evaluation;
  };

  Progress progress(stdout, steps, s.attention);
  if (result.history.empty()) evaluate();
  while (step < steps) {
    optimizer.set_lr(rate(step));
    const Clock::time_point begin = Clock::now();
    const double loss = train_step(task, optimizer, parameters, s, step);
    step_times.push_back(milliseconds_since(begin));
    loss_sum += loss;
    ++loss_count;
    ++step;
    if (step % s.eval_every == 0 || step == steps) evaluate();
    if (s.checkpoint_every > 0 && step % s.checkpoint_every == 0) checkpoint.save(step);
    if (interrupted()) {
      checkpoint.save(step);
      throw Interrupted(fmt::format("stopped at step {} of {}; go on with: {}", step, steps, resume_command(s)));
    }
    std::vector<ProgressField> fields{{"loss", fmt::format("{:.3f}", loss)},
                                      {"val", fmt::format("{:.3f}", result.final.loss)}};
    if (result.final.accuracy) fields.push_back({"acc", fmt::format("{:.2f}%", 100 * *result.final.accuracy)});
    progress.update(step, std::move(fields));
  }
  progress.finish();
  checkpoint.save(step);

  result.full = task.evaluate(0);
  result.ms_per_step = median(step_times);
  result.tokens_per_second = result.ms_per_step > 0 ? tokens / result.ms_per_step * 1e3 : 0;
  result.peak_bytes = memory_stats().peak;
  task.model().save(folder.path() / "model.safetensors", task.metadata());
  if (const std::string text = task.sample(500); !text.empty()) folder.write_text("samples.txt", text + "\n");
  draw_losses({{s.attention, &result}}, fmt::format("{} on {}", s.attention, s.task), task.data_name(),
              folder.path() / "loss.png");
  return result;
}

void draw_losses(const std::vector<std::pair<std::string, const TrainingResult*>>& runs, const std::string& title,
                 const std::string& data_name, const std::filesystem::path& path) {
  LineChart chart{.title = title, .subtitle = "data: " + data_name, .x_label = "step", .y_label = "validation loss"};
  for (const auto& [name, result] : runs) {
    Series series{.label = name};
    for (const Metrics& m : result->history) {
      series.x.push_back(static_cast<double>(m.step));
      series.y.push_back(m.val_loss);
    }
    chart.series.push_back(std::move(series));
  }
  write_png(chart, path);
}

}  // namespace linnet::examples
