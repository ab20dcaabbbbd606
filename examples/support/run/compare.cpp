#include "support/run/compare.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "support/format.h"
#include "support/ranks.h"
#include "support/run/training.h"
#include "support/settings/program.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

struct Entry {
  std::string name;
  TrainingResult result;
  std::string sample;
  std::vector<std::pair<std::string, std::string>> cells;  // with the names of their columns
};

/// What the runs of a program have in common.
struct CommonData {
  std::string name, of_test;
};

Settings settings_for(const std::string& attention, const Settings& common) {
  Settings settings = settings_of(attention, common);
  settings.out = common.out / row_name(settings);
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

std::vector<Entry> train_all(const std::vector<Settings>& runs, const CompareProgram& program, CommonData& data) {
  std::vector<Entry> entries;
  for (const Settings& settings : runs) {
    const std::unique_ptr<Task> task = make_task(settings);
    data = {.name = task->data_name(), .of_test = task->test_data()};
    Entry entry{
        .name = row_name(settings), .result = train(*task, settings), .sample = task->sample(200), .cells = {}};
    if (program.more_cells) entry.cells = program.more_cells(*task, entry.result);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::string table_of(const std::vector<Entry>& entries, bool of_test) {
  const Task::Evaluation& evaluated = entries.front().result.full;
  std::vector<std::string> columns{
      "attention", of_test ? "test loss" : "val loss", "ms/step", "tokens/s", "parameters", "peak memory"};
  auto place = columns.begin() + 2;
  if (evaluated.accuracy) place = columns.insert(place, "accuracy") + 1;
  for (const auto& measure : evaluated.measures) place = columns.insert(place, measure.first) + 1;
  for (const auto& cell : entries.front().cells) columns.push_back(cell.first);
  Table table(columns);
  for (const auto& [name, result, sample, more] : entries) {
    std::vector<std::string> cells{name,
                                   fmt::format("{:.4f}", result.full.loss),
                                   fmt::format("{:.1f}", result.ms_per_step),
                                   format_count(static_cast<int64_t>(result.tokens_per_second)),
                                   format_count(result.parameters),
                                   format_bytes(result.peak_bytes)};
    auto cell = cells.begin() + 2;
    if (evaluated.accuracy) cell = cells.insert(cell, fmt::format("{:.2f} %", 100 * *result.full.accuracy)) + 1;
    for (const auto& measure : result.full.measures)
      cell = cells.insert(cell, fmt::format("{:.4f}", measure.second)) + 1;
    for (const auto& other : more) cells.push_back(other.second);
    table.add_row(cells);
  }
  return table.str();
}

void compare(const std::vector<Settings>& runs, const Settings& settings, const CompareProgram& program) {
  apply_machine_settings(settings);
  catch_interrupts();
  CommonData data;
  const std::vector<Entry> entries = train_all(runs, program, data);
  if (!is_first_rank()) return;
  for (const Entry& entry : entries) {
    if (!entry.sample.empty()) fmt::print("\n---- {} writes ----\n{}\n", entry.name, entry.sample);
  }
  const bool of_test = settings.keep_best || data.of_test == "test data";
  const std::string table = table_of(entries, of_test);
  const std::string what = fmt::format("{}, {}, seed {}", data.name, describe(settings), settings.seed);
  fmt::print("\n{}; {}\n{}", what,
             settings.keep_best ? "test data, by the weights with the best validation accuracy"
                                : "losses on " + data.of_test,
             table);
  std::vector<std::pair<std::string, const TrainingResult*>> curves;
  for (const Entry& entry : entries) curves.emplace_back(entry.name, &entry.result);
  if (program.finish) program.finish(curves);
  // Gerami et al. 2024, figure 6
  const std::filesystem::path steps = settings.out / "compare.png", seconds = settings.out / "compare-seconds.png";
  draw_losses(curves, Against::steps, "Attention mechanisms compared, step by step", what, steps);
  draw_losses(curves, Against::seconds, "Attention mechanisms compared, in equal time", what, seconds);
  fmt::print("\nloss curves: {}\n             {}\n", steps.string(), seconds.string());
}

/// The mechanisms where --attention names none, or `all`.
std::vector<std::string> default_mechanisms(const Settings& settings, bool all, const CompareProgram& program) {
  if (row_name(settings) != settings.attention) return {settings.attention};  // the encoder has no choice of its own
  if (!all && !program.mechanisms.empty()) return program.mechanisms;
  return kind_of(settings.task) == TaskKind::text ? linnet::nn::causal_mechanisms()
                                                  : linnet::nn::attention_mechanisms();
}

}  // namespace

int compare_program(int argc, char** argv, const CompareProgram& program) {
  CLI::App app(program.description, program.name);
  return run_program(app, [&] {
    join_ranks();
    const std::vector<std::string> tasks = program.tasks.empty() ? task_names() : program.tasks;
    std::string task = tasks.size() > 1 ? task_from_flag(argc, argv, tasks) : tasks.front();
    Settings settings = settings_from_preset(argc, argv, task, preset_names(task).front());
    std::vector<std::string> mechanisms;
    settings.out = tasks.size() > 1 ? "out/compare-" + task : "out/" + program.name;
    add_common_flags(app, settings);
    if (tasks.size() > 1) add_task_flag(app, task, tasks);
    add_mechanism_list(app, "--attention", mechanisms);
    add_attention_option_flags(app, settings);
    add_model_flags(app, settings);
    add_training_flags(app, settings);
    app.add_option("--out", settings.out, "folder for all results, one folder in it for each mechanism")
        ->check(path());
    app.add_flag("--resume", settings.resume, "go on with what is in --out, by the same flags");
    if (program.add_flags) program.add_flags(app);
    app.parse(argc, argv);
    settle_training_flags(app, settings);
    if (mechanisms.empty()) mechanisms = default_mechanisms(settings, app.count("--attention") > 0, program);
    const std::vector<Settings> runs = settings_for_all(mechanisms, settings);
    if (program.check) program.check(runs);
    compare(runs, settings, program);
  });
}

}  // namespace linnet::examples
