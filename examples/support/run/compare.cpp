#include "support/run/compare.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "support/format.h"
#include "support/run/training.h"
#include "support/settings/program.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

struct Entry {
  std::string attention;
  TrainingResult result;
  std::string sample;
};

Settings settings_for(const std::string& attention, const Settings& common) {
  Settings settings = settings_of(attention, common);
  settings.out = common.out / attention;
  validate(settings);
  settle_run(settings);
  return settings;
}

/// The settings of each run, all checked before the first one trains, so that no bad flag ends the program halfway.
std::vector<Settings> settings_for_all(const std::vector<std::string>& mechanisms, const Settings& common) {
  check_options_apply(common, "--attention", mechanisms);
  std::vector<Settings> runs;
  for (const std::string& attention : mechanisms) {
    if (std::count(mechanisms.begin(), mechanisms.end(), attention) > 1) {
      throw UsageError(fmt::format("--attention names {} twice", attention));
    }
    runs.push_back(settings_for(attention, common));
  }
  check_any_began(runs, common);
  return runs;
}

std::vector<Entry> train_all(const std::vector<Settings>& runs, std::string& data) {
  std::vector<Entry> entries;
  for (const Settings& settings : runs) {
    const std::unique_ptr<Task> task = make_task(settings);
    data = task->data_name();
    entries.push_back({settings.attention, train(*task, settings), task->sample(200)});
  }
  return entries;
}

std::string table_of(const std::vector<Entry>& entries, bool of_test) {
  const Task::Evaluation& first = entries.front().result.full;
  std::vector<std::string> columns{
      "attention", of_test ? "test loss" : "val loss", "ms/step", "tokens/s", "parameters", "peak memory"};
  if (first.macro_f) columns.insert(columns.begin() + 2, "macro-F");
  if (first.accuracy) columns.insert(columns.begin() + 2, "accuracy");
  Table table(columns);
  for (const auto& [attention, result, sample] : entries) {
    std::vector<std::string> cells{attention,
                                   fmt::format("{:.4f}", result.full.loss),
                                   fmt::format("{:.1f}", result.ms_per_step),
                                   format_count(static_cast<int64_t>(result.tokens_per_second)),
                                   format_count(result.parameters),
                                   format_bytes(result.peak_bytes)};
    for (const std::optional<double>& share : {result.full.macro_f, result.full.accuracy}) {
      if (share) cells.insert(cells.begin() + 2, fmt::format("{:.2f} %", 100 * *share));
    }
    table.add_row(cells);
  }
  return table.str();
}

void compare(const std::vector<Settings>& runs, const Settings& settings) {
  apply_machine_settings(settings);
  catch_interrupts();
  std::string data;
  const std::vector<Entry> entries = train_all(runs, data);
  for (const Entry& entry : entries) {
    if (!entry.sample.empty()) fmt::print("\n---- {} writes ----\n{}\n", entry.attention, entry.sample);
  }
  const std::string table = table_of(entries, settings.keep_best);
  const std::string what = fmt::format("{}, {}, seed {}", data, describe(settings), settings.seed);
  fmt::print("\n{}; {}\n{}", what,
             settings.keep_best ? "test data, by the weights with the best validation accuracy"
                                : "losses on all validation data",
             table);
  std::vector<std::pair<std::string, const TrainingResult*>> curves;
  for (const Entry& entry : entries) curves.emplace_back(entry.attention, &entry.result);
  // Gerami et al. 2024, figure 6
  const std::filesystem::path steps = settings.out / "compare.png", seconds = settings.out / "compare-seconds.png";
  draw_losses(curves, Against::steps, "Attention mechanisms compared, step by step", what, steps);
  draw_losses(curves, Against::seconds, "Attention mechanisms compared, in equal time", what, seconds);
  fmt::print("\nloss curves: {}\n             {}\n", steps.string(), seconds.string());
}

}  // namespace

int compare_program(int argc, char** argv, const std::string& name) {
  CLI::App app("Trains several attention mechanisms on the same task, with the same budget and seed.", name);
  return run_program(app, [&] {
    std::string task = task_from_flag(argc, argv, task_names());
    Settings settings = settings_from_preset(argc, argv, task, preset_names(task).front());
    std::vector<std::string> mechanisms;
    settings.out = "out/compare-" + task;
    add_common_flags(app, settings);
    add_task_flag(app, task, task_names());
    add_mechanism_list(app, "--attention", mechanisms);
    add_attention_option_flags(app, settings);
    add_model_flags(app, settings);
    add_training_flags(app, settings);
    app.add_option("--out", settings.out, "folder for all results, one folder in it for each mechanism")
        ->check(path());
    app.add_flag("--resume", settings.resume, "go on with what is in --out, by the same flags");
    app.parse(argc, argv);
    settle_training_flags(app, settings);
    if (mechanisms.empty()) {
      const bool causal = kind_of(task) == TaskKind::text;
      mechanisms = causal ? linnet::nn::causal_mechanisms() : linnet::nn::attention_mechanisms();
    }
    compare(settings_for_all(mechanisms, settings), settings);
  });
}

}  // namespace linnet::examples
