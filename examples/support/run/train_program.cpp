#include "support/run/train_program.h"

#include <algorithm>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "support/format.h"
#include "support/ranks.h"
#include "support/run/checkpoint.h"
#include "support/run/training.h"
#include "support/run/training_step.h"
#include "support/settings/inapplicable.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

void describe(const std::string& what, const Task::Evaluation& evaluation) {
  fmt::print("{:<22} {:.4f}", what, evaluation.loss);
  if (evaluation.accuracy) fmt::print("   accuracy {:.2f} %", 100 * *evaluation.accuracy);
  for (const auto& [name, value] : evaluation.measures) fmt::print("   {} {:.4g}", name, value);
  fmt::print("\n");
}

/// Whether a resumed run has made all of its `steps`. Throws UsageError if it has made more.
bool is_finished(const Settings& s, int64_t steps) {
  const int64_t done = steps_done(s.out);
  if (done > steps) {
    throw UsageError(fmt::format(
        "--{}: the run in {} has made {} steps already; name at least as many",
        s.epochs == 0 ? fmt::format("steps {}", steps) : fmt::format("epochs {}, which is {} steps", s.epochs, steps),
        s.out.string(), done));
  }
  return done == steps;
}

/// Makes the task. If a resumed run's data cannot be read, the message adds the name of the data that it began with.
std::unique_ptr<Task> task_of(const Settings& s) {
  try {
    return make_task(s);
  } catch (const Error& error) {
    if (!s.resume) throw;
    std::string before;
    read_config(s.out, &before);
    throw IoError(fmt::format("{} (the run in {} learned from {})", error.what(), s.out.string(), before));
  }
}

/// Throws what can be known to end the run before minutes of reading or making data.
void check_without_data(const Settings& s) {
  check_ranks(s);
  on_first_rank([&] {
    const FolderLock lock(s.out);
    if (!s.resume) check_is_free(s);
  });
  if (s.resume && s.epochs == 0) (void)is_finished(s, s.steps);
}

void train_and_report(const Settings& settings, const TrainProgram& program) {
  apply_machine_settings(settings);
  catch_interrupts();
  check_without_data(settings);
  const std::unique_ptr<Task> task = task_of(settings);
  const int64_t steps = total_steps(settings, *task);
  fmt::print("{} on {}: {} layers, {} heads, width {}, {} steps; seed {}; {}\n", settings.attention,
             task->data_name(), settings.layers, settings.heads, settings.width, steps, settings.seed,
             settings.out.string());
  if (const std::string note = note_of(settings, *task); !note.empty()) {
    fmt::print("{} here: {}\n", settings.attention, note);
  }
  if (settings.resume && is_finished(settings, steps)) {
    fmt::print("the run in {} is finished: all of its {} steps are made; give more with --steps to train it longer\n",
               settings.out.string(), steps);
  }
  const TrainingResult result = train(*task, settings);
  if (!is_first_rank()) return;
  if (settings.keep_best) {
    describe("validation, last", result.final);
    describe(fmt::format("test, of step {}", format_count(result.tested_step)), result.full);
  } else {
    if (settings.eval_batches > 0) describe("validation, batches", result.final);
    describe("validation, all", result.full);
  }
  const auto best = std::ranges::min_element(result.history, {}, &Metrics::val_loss);
  if (!settings.keep_best && best->val_loss < 0.99 * result.final.loss) {
    fmt::print("{:<22} {:.4f} at step {} of {}; it has risen since, so fewer --steps may give a better model\n",
               "validation, lowest", best->val_loss, format_count(best->step), format_count(steps));
  }
  fmt::print("{:<22} {:.2f} ms per step, {} tokens/s, {} parameters, peak {}\n", "training", result.ms_per_step,
             format_count(static_cast<int64_t>(result.tokens_per_second)), format_count(result.parameters),
             format_bytes(result.peak_bytes));
  if (ranks().world_size() > 1) {
    const auto& [count, waited_ms, sent] = result.processes;
    fmt::print("{:<22} {}, of {} threads each; a step waits {:.2f} ms for others{}\n", "processes", count,
               num_threads(), waited_ms, sent ? " and sends them " + format_bytes(static_cast<int64_t>(*sent)) : "");
    fmt::print("{:<22} at most {} a process\n", "optimizer state", format_bytes(result.optimizer_bytes));
  }
  if (program.finish) program.finish(settings, result);
}

/// Throws UsageError for flags that would change a resumed run's settings. Only its length may change.
void refuse_changes(const CLI::App& app, Settings asked, const Settings& stored) {
  const auto has_flag = [&](const std::string& flag) { return app.get_option_no_throw(flag) != nullptr; };
  const auto is_given = [&](const std::string& flag) { return has_flag(flag) && app.count(flag) > 0; };
  // Flags without a mechanism's name are those of the run's mechanisms.
  if (!is_given("--attention")) asked.attention = stored.attention;
  if (!is_given("--decoder-attention")) asked.summary.decoder_attention = stored.summary.decoder_attention;
  if (!is_given("--cross")) asked.summary.cross = stored.summary.cross;
  const nlohmann::json now = to_json(asked), before = to_json(stored);
  for (const CLI::Option* option : app.get_options()) {
    std::string field = option->get_single_name();
    std::replace(field.begin(), field.end(), '-', '_');
    if (field == "steps" || field == "epochs" || option->count() == 0) continue;
    for (const std::string part : {"", "decoder", "cross"}) {
      if (!part.empty() && has_flag("--" + part + "-" + option->get_single_name())) continue;
      const std::string name = part.empty() ? field : part + "_" + field;
      if (!now.contains(name) || now[name] == before.value(name, nlohmann::json())) continue;
      throw UsageError(fmt::format("--{} {}: the run in {} keeps what it has, {}; leave the flag out",
                                   option->get_single_name(), now[name].dump(), asked.out.string(),
                                   before.value(name, nlohmann::json("no such setting")).dump()));
    }
  }
}

/// The settings of the run in asked.out, with the flags that a resumed run may have.
Settings resumed(const CLI::App& app, const Settings& asked) {
  Settings settings = read_config(asked.out);
  if (settings.task != asked.task && programs_of(settings.task) == programs_of(asked.task)) {
    throw UsageError(fmt::format("--task {}: the run in {} is one of --task {}; name that", asked.task,
                                 asked.out.string(), settings.task));
  }
  if (settings.task != asked.task) {
    throw UsageError(
        fmt::format("--resume: the run in {} is one of {}", asked.out.string(), programs_of(settings.task)));
  }
  refuse_changes(app, asked, settings);
  settings.out = asked.out;
  if (app.count("--steps") + app.count("--epochs") > 0) {
    settings.steps = asked.steps;
    settings.epochs = asked.epochs;
    const bool has_steps = settings.epochs == 0 && settings.steps > 0;
    if (has_steps && settings.warmup >= settings.steps && !is_finished(settings, settings.steps)) {
      throw UsageError(fmt::format("--steps {}: the run in {} has a warm-up of {} steps; name more", settings.steps,
                                   asked.out.string(), settings.warmup));
    }
  }
  settings.resume = true;
  settle_data(asked.out, asked.data, settings);
  settings.threads = asked.threads;
  settings.shard_optimizer = asked.shard_optimizer;
  settings.profile = asked.profile;
  settings.command = asked.command;
  return settings;
}

}  // namespace

int train_program(int argc, char** argv, const TrainProgram& program) {
  CLI::App app(program.description, program.name);
  return run_program(app, [&] {
    join_ranks();
    const bool several = program.tasks.size() > 1;
    std::string task = several ? task_from_flag(argc, argv, program.tasks) : program.tasks.front();
    Settings settings = settings_from_preset(argc, argv, task, preset_names(task).front());
    add_common_flags(app, settings);
    if (several) add_task_flag(app, task, program.tasks);
    add_attention_flags(app, settings);
    add_model_flags(app, settings);
    add_training_flags(app, settings);
    app.add_option("--out", settings.out, "folder for all results (default: out/<task>-<attention>)")->check(path());
    app.add_flag("--profile", settings.profile,
                 "time the kernels of ten steps, after ten others: profile.txt and trace.json in --out");
    app.add_flag("--resume", settings.resume,
                 "go on with the run in --out, with its settings and data; --steps or --epochs give it a new "
                 "total, over which the schedule of the learning rate then runs");
    if (program.add_flags) program.add_flags(app);
    app.parse(argc, argv);
    if (program.instead_of_training && program.instead_of_training(settings)) return;
    settle_training_flags(app, settings);
    drop_preset_options(app, settings);
    if (settings.out.empty()) settings.out = fmt::format("out/{}-{}", settings.task, settings.attention);
    if (settings.resume) settings = resumed(app, settings);
    refuse_inapplicable_flags(app, settings);
    validate(settings);
    train_and_report(settings, program);
  });
}

}  // namespace linnet::examples
