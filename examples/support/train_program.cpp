#include "support/train_program.h"

#include <fmt/format.h>

#include "support/format.h"
#include "support/program.h"
#include "support/training.h"

namespace linnet::examples {
namespace {

void describe(const char* what, const Task::Evaluation& evaluation) {
  fmt::print("{:<22} {:.4f}", what, evaluation.loss);
  if (evaluation.accuracy) fmt::print("   accuracy {:.2f} %", 100 * *evaluation.accuracy);
  fmt::print("\n");
}

void train_and_report(const Settings& settings) {
  apply_machine_settings(settings);
  catch_interrupts();
  const std::unique_ptr<Task> task = make_task(settings);
  RunFolder folder(settings, task->data_name());
  fmt::print("{} on {}: {} layers, {} heads, width {}, {} steps; seed {}; {}\n", settings.attention, task->data_name(),
             settings.layers, settings.heads, settings.width, total_steps(settings, *task), settings.seed,
             folder.path().string());
  const TrainingResult result = train(*task, settings, folder);
  if (settings.eval_batches > 0) describe("validation, batches", result.final);
  describe("validation, all", result.full);
  fmt::print("{:<22} {:.2f} ms per step, {} tokens/s, {} parameters, peak {}\n", "training", result.ms_per_step,
             format_count(static_cast<int64_t>(result.tokens_per_second)), format_count(result.parameters),
             format_bytes(result.peak_bytes));
}

}  // namespace

int train_program(int argc, char** argv, const std::string& task, const std::string& default_preset,
                  const std::string& description) {
  CLI::App app(description, "train_" + task);
  return run_program(app, [&] {
    Settings settings = settings_from_preset(argc, argv, task, default_preset);
    add_common_flags(app, settings);
    add_model_flags(app, settings);
    add_training_flags(app, settings);
    app.add_option("--checkpoint-every", settings.checkpoint_every, "steps between checkpoints; 0 for one at the end");
    app.add_option("--out", settings.out, "folder for all results (default: out/<task>-<attention>)");
    app.add_flag("--resume", settings.resume, "go on with the run in --out, with the settings it has");
    app.parse(argc, argv);
    if (app.count("--steps") > 0) settings.epochs = 0;
    if (settings.out.empty()) settings.out = fmt::format("out/{}-{}", settings.task, settings.attention);
    if (settings.resume) {
      Settings stored = read_config(settings.out);
      stored.resume = true;
      stored.out = settings.out;
      stored.data = settings.data;
      stored.threads = settings.threads;
      settings = stored;
    }
    validate(settings);
    train_and_report(settings);
  });
}

}  // namespace linnet::examples
