#include "support/report/runs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "support/format.h"
#include "support/plot/plot.h"
#include "support/run/run_folder.h"
#include "support/run/training.h"
#include "support/spread.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

/// The settings without those of the mechanism.
Settings without_mechanism(const Settings& settings) {
  Settings plain = settings_of("softmax", settings);
  plain.options = preset(settings.task, settings.preset).options;
  return plain;
}

/// Settings of a classifier of texts without those that the flags of table 9 (Wu et al. 2021) or the form of the data
/// set: softmax attention read 512 words, Fastformer shared layers, and texts may come in another format.
Settings without_table_9(Settings s) {
  if (kind_of(s.task) != TaskKind::labelled_texts) return s;
  const Settings published = preset(s.task, s.preset);
  if (s.attention == Settings{}.attention && s.context == 512) s.context = published.context;
  if (s.share) std::erase(*s.share, "layers");
  s.texts.format = published.texts.format;
  s.texts.text_field = published.texts.text_field;
  s.texts.label_field = published.texts.label_field;
  return s;
}

/// The run of a task of this kind in a folder. A line on stderr says which folders cannot be read.
std::optional<FinishedRun> finished_run(const fs::path& folder, TaskKind kind) {
  try {
    FinishedRun run;
    run.folder = folder;
    run.settings = read_config(folder, &run.data);
    const std::optional<Results> results = read_results(folder);
    if (!results || kind_of(run.settings.task) != kind) return std::nullopt;
    run.results = *results;
    return run;
  } catch (const IoError& error) {
    fmt::print(stderr, "leaving out {}: {}\n", folder.string(), error.message());
    return std::nullopt;
  }
}

std::vector<FinishedRun> finished_runs(const fs::path& folder, TaskKind kind) {
  const std::string program = programs_of(task_names(kind).front());
  std::vector<FinishedRun> runs;
  std::error_code error;
  fs::recursive_directory_iterator entries(folder, error);
  if (error)
    throw IoError(
        fmt::format("--out {}: {}; name a folder with runs of {}", folder.string(), error.message(), program));
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().filename() != kResults) continue;
    if (auto run = finished_run(entry.path().parent_path(), kind)) runs.push_back(std::move(*run));
  }
  if (runs.empty()) {
    throw IoError(
        fmt::format("--out {} holds no finished run of {}; name the folder of some runs", folder.string(), program));
  }
  return runs;
}

/// What a run's results depend on beside its mechanism and seed.
std::string what_of(const FinishedRun& run) {
  const Settings& s = run.settings;
  return describe(without_mechanism(s)) + (s.device == "cpu" ? "" : ", device " + s.device);
}

/// The mechanism, with those of its options that differ from the preset's.
Row row_of(const Settings& s) {
  Settings published = preset(s.task, s.preset);
  published.attention = s.attention;
  const std::map<std::string, std::string> before = completed(settings_of(s.attention, published)).options;
  Row row{mechanism_index(s.attention), s.attention};
  for (const auto& [name, value] : completed(s).options) {
    const auto same = before.find(name);
    if (same != before.end() && same->second == value) continue;
    std::string words = name;
    std::ranges::replace(words, '_', ' ');
    row.label += fmt::format(", {} {}", words, value);
  }
  return row;
}

Spread spread_of(const Runs& runs, double (*value)(const FinishedRun&)) {
  Spread spread;
  for (const FinishedRun& run : runs) spread.values.push_back(value(run));
  return spread;
}

double ms_of(const FinishedRun& run) { return run.results.ms_per_step; }
double peak_of(const FinishedRun& run) { return static_cast<double>(run.results.peak_bytes); }

void print_group(const Group& group, const Rows& rows) {
  const bool has_macro_f = !std::isnan(macro_f_of(rows.begin()->second.front()));
  std::vector<std::string> columns{"attention", "accuracy, %", "ms/step", "steps/s", "peak memory", "parameters"};
  if (has_macro_f) columns.insert(columns.begin() + 2, "macro-F, %");
  Table table(columns);
  for (const auto& [row, runs] : rows) {
    std::vector<std::string> cells{row.label,
                                   percent_text(runs, accuracy_of),
                                   fmt::format("{:.1f}", mean_of(runs, ms_of)),
                                   fmt::format("{:.2f}", steps_per_second(runs)),
                                   format_bytes(static_cast<int64_t>(mean_of(runs, peak_of))),
                                   format_count(runs.front().results.parameters)};
    if (has_macro_f) cells.insert(cells.begin() + 2, percent_text(runs, macro_f_of));
    table.add_row(cells);
  }
  fmt::print("{}, {}: {}\n{}\n", group.task, group.data, group.what, table.str());
}

/// A name for the files of a group: the preset, with a number where several groups share it.
std::string file_name(const std::string& preset, std::map<std::string, int>& used) {
  const int number = ++used[preset];
  return number == 1 ? preset : fmt::format("{}-{}", preset, number);
}

void draw_accuracies(const Group& group, const Rows& rows, const fs::path& path) {
  double most = 0;
  for (const auto& [row, runs] : rows) most = std::max(most, mean_of(runs, peak_of));
  LineChart chart{.title = fmt::format("{}: accuracy against speed, area in proportion to peak memory (largest {})",
                                       group.task, format_bytes(static_cast<int64_t>(most))),
                  .subtitle = fmt::format("{}, {}", group.data, group.what),
                  .x_label = "training steps a second",
                  .y_label = "accuracy, %",
                  .log_x = true};
  for (const auto& [row, runs] : rows) {
    chart.series.push_back({.label = row.label,
                            .x = {steps_per_second(runs)},
                            .y = {mean_of(runs, accuracy_of)},
                            .color = row.mechanism,
                            .areas = {mean_of(runs, peak_of) / most}});
  }
  write_png(chart, path);
}

void draw_group_losses(const Group& group, const Rows& rows, Against against, const fs::path& path) {
  std::vector<TrainingResult> results;
  results.reserve(rows.size());
  std::vector<std::pair<std::string, const TrainingResult*>> curves;
  for (const auto& [row, runs] : rows) {
    results.emplace_back().history = read_metrics(runs.front().folder);
    curves.emplace_back(row.label, &results.back());
  }
  draw_losses(
      curves, against,
      fmt::format("{}: validation loss {}", group.task, against == Against::steps ? "step by step" : "in equal time"),
      fmt::format("{}, {}", group.data, group.what), path);
}

}  // namespace

Groups groups_in(const fs::path& folder, TaskKind kind) {
  Groups groups;
  for (FinishedRun& run : finished_runs(folder, kind)) {
    Runs& runs = groups[{run.settings.task, what_of(run), run.data}][row_of(run.settings)];
    const auto same = std::ranges::find(runs, run.settings.seed, [](const auto& r) { return r.settings.seed; });
    if (same == runs.end()) {
      runs.push_back(std::move(run));
    } else {
      fmt::print(stderr, "leaving out {}: it has the settings and the seed of {}\n", run.folder.string(),
                 same->folder.string());
    }
  }
  for (auto& [group, rows] : groups) {
    for (auto& [row, runs] : rows) std::ranges::sort(runs, {}, [](const auto& run) { return run.settings.seed; });
  }
  return groups;
}

double mean_of(const Runs& runs, double (*value)(const FinishedRun&)) { return spread_of(runs, value).mean(); }

double accuracy_of(const FinishedRun& run) { return 100 * run.results.accuracy.value_or(NAN); }
double macro_f_of(const FinishedRun& run) {
  for (const auto& [name, value] : run.results.measures) {
    if (name == kMacroF) return 100 * value;
  }
  return NAN;
}

std::string percent_text(const Runs& runs, double (*percent)(const FinishedRun&)) {
  const std::string text = spread_of(runs, percent).text(2);
  return runs.size() == 1 ? text : fmt::format("{} ({} seeds)", text, runs.size());
}

double steps_per_second(const Runs& runs) { return 1e3 / mean_of(runs, ms_of); }

bool is_whole(const FinishedRun& run) {
  const Settings s = without_table_9(run.settings);
  return !s.preset.ends_with("-small") && !run.data.starts_with("stand-in") &&
         length_of(s) == length_of(preset(s.task, s.preset)) &&
         describe_model(without_mechanism(s)) == "preset " + s.preset;
}

void print_groups(const Groups& groups) {
  for (const auto& [group, rows] : groups) print_group(group, rows);
}

void draw_figures(const fs::path& folder, TaskKind kind) {
  std::map<std::string, int> used;
  for (const auto& [group, rows] : groups_in(folder, kind)) {
    const std::string name = file_name(rows.begin()->second.front().settings.preset, used);
    const fs::path accuracy = folder / (name + "-accuracy.png"), steps = folder / (name + "-loss.png"),
                   seconds = folder / (name + "-loss-seconds.png");
    draw_accuracies(group, rows, accuracy);
    draw_group_losses(group, rows, Against::steps, steps);
    draw_group_losses(group, rows, Against::seconds, seconds);
    fmt::print("{}\n{}\n{}\n", accuracy.string(), steps.string(), seconds.string());
  }
}

}  // namespace linnet::examples
