#include "support/report/lra_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "support/format.h"
#include "support/plot/plot.h"
#include "support/report/published.h"
#include "support/run/run_folder.h"
#include "support/run/training.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

struct FinishedRun {
  fs::path folder;
  Settings settings;
  std::string data;
  Results results;
};

/// Runs that may be compared: of one preset, with the same changes to it, on the same data and device.
struct Group {
  std::string task, what, data;
  auto operator<=>(const Group&) const = default;
};

/// A mechanism with its options, in the order of tables and pictures.
struct Row {
  size_t mechanism = 0;  ///< its index in the list of all
  std::string label;     ///< its name, and the options that differ from the preset's: "NAME, window 64"
  auto operator<=>(const Row&) const = default;
};

/// One run for each seed.
using Runs = std::vector<FinishedRun>;
using Rows = std::map<Row, Runs>;
using Groups = std::map<Group, Rows>;

/// The run of lra in a folder. A line on stderr says which folders cannot be read.
std::optional<FinishedRun> finished_run(const fs::path& folder) {
  try {
    FinishedRun run;
    run.folder = folder;
    run.settings = read_config(folder, &run.data);
    const std::optional<Results> results = read_results(folder);
    if (!results || kind_of(run.settings.task) != TaskKind::sequences) return std::nullopt;
    run.results = *results;
    return run;
  } catch (const IoError& error) {
    fmt::print(stderr, "leaving out {}: {}\n", folder.string(), error.message());
    return std::nullopt;
  }
}

std::vector<FinishedRun> finished_runs(const fs::path& folder) {
  std::vector<FinishedRun> runs;
  std::error_code error;
  fs::recursive_directory_iterator entries(folder, error);
  if (error)
    throw IoError(fmt::format("--out {}: {}; name a folder with runs of lra", folder.string(), error.message()));
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().filename() != kResults) continue;
    if (auto run = finished_run(entry.path().parent_path())) runs.push_back(std::move(*run));
  }
  if (runs.empty()) {
    throw IoError(
        fmt::format("--out {} holds no finished run of lra; name the folder of some runs", folder.string()));
  }
  return runs;
}

/// The settings without those of the mechanism.
Settings without_mechanism(const Settings& settings) {
  Settings plain = settings_of("softmax", settings);
  plain.options = preset(settings.task, settings.preset).options;
  return plain;
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

Groups groups_in(const fs::path& folder) {
  Groups groups;
  for (FinishedRun& run : finished_runs(folder)) {
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

double mean_of(const Runs& runs, double (*value)(const FinishedRun&)) {
  double sum = 0;
  for (const FinishedRun& run : runs) sum += value(run);
  return sum / static_cast<double>(runs.size());
}

double accuracy_of(const FinishedRun& run) { return 100 * run.results.accuracy.value_or(NAN); }
double ms_of(const FinishedRun& run) { return run.results.ms_per_step; }
double peak_of(const FinishedRun& run) { return static_cast<double>(run.results.peak_bytes); }

/// "37.40", or with several seeds "37.40 ± 0.31 (3 seeds)", where the spread is the standard deviation.
std::string accuracy_text(const Runs& runs) {
  const double mean = mean_of(runs, accuracy_of);
  if (runs.size() == 1) return fmt::format("{:.2f}", mean);
  double squares = 0;
  for (const FinishedRun& run : runs) squares += (accuracy_of(run) - mean) * (accuracy_of(run) - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(runs.size() - 1));
  return fmt::format("{:.2f} ± {:.2f} ({} seeds)", mean, deviation, runs.size());
}

double steps_per_second(const Runs& runs) { return 1e3 / mean_of(runs, ms_of); }

void print_group(const Group& group, const Rows& rows) {
  Table table({"attention", "accuracy, %", "ms/step", "steps/s", "peak memory", "parameters"});
  for (const auto& [row, runs] : rows) {
    table.add_row({row.label, accuracy_text(runs), fmt::format("{:.1f}", mean_of(runs, ms_of)),
                   fmt::format("{:.2f}", steps_per_second(runs)),
                   format_bytes(static_cast<int64_t>(mean_of(runs, peak_of))),
                   format_count(runs.front().results.parameters)});
  }
  fmt::print("{}, {}: {}\n{}\n", group.task, group.data, group.what, table.str());
}

/// Whether a run stands beside the published rows: of a preset without changes, on the data that they name.
bool is_whole(const FinishedRun& run) {
  const Settings& s = run.settings;
  return !s.preset.ends_with("-small") && !run.data.starts_with("stand-in") &&
         s.steps == preset(s.task, s.preset).steps && describe_model(without_mechanism(s)) == "preset " + s.preset;
}

/// A table with a column for each published task.
Table table_of_tasks() {
  return Table({"attention", "listops", "text", "retrieval", "image", "pathfinder", "average", "source"});
}

void add_rows(Table& table, const std::vector<PublishedRow>& rows) {
  for (const PublishedRow& row : rows) {
    std::vector<std::string> cells{row.mechanism};
    for (const double value : row.values) cells.push_back(fmt::format("{:.2f}", value));
    cells.insert(cells.end(), {fmt::format("{:.2f}", row.average), row.source});
    table.add_row(cells);
  }
}

/// What whole runs have to show, by mechanism and lineage of presets, for each task.
using WholeRuns = std::map<std::pair<Row, std::string>, std::map<std::string, const Runs*>>;

/// Adds a row for each mechanism and lineage. `text` makes a cell, and `value` the numbers for the average.
void add_ours(Table& table, const WholeRuns& ours, std::string (*text)(const Runs&), double (*value)(const Runs&)) {
  for (const auto& [row, tasks] : ours) {
    std::vector<std::string> cells{row.first.label};
    double sum = 0;
    for (const std::string& task : kPublishedTasks) {
      const auto runs = tasks.find(task);
      cells.push_back(runs == tasks.end() ? "-" : text(*runs->second));
      sum += runs == tasks.end() ? NAN : value(*runs->second);
    }
    cells.insert(cells.end(),
                 {std::isnan(sum) ? "-" : fmt::format("{:.2f}", sum / kPublishedTasks.size()), row.second});
    table.add_row(cells);
  }
}

/// The accuracies and speeds of whole runs beside the published ones.
void print_beside_published(const Groups& groups) {
  WholeRuns ours;
  for (const auto& [group, rows] : groups) {
    for (const auto& [row, runs] : rows) {
      const std::string& preset = runs.front().settings.preset;
      if (!is_whole(runs.front()) || std::ranges::count(kPublishedTasks, group.task) == 0) continue;
      std::string source =
          preset.ends_with("-nystrom") ? "linnet, presets lra-TASK-nystrom" : "linnet, presets lra-TASK";
      if (ours[{row, source}].contains(group.task)) source += ", " + group.data;  // of other data
      ours[{row, source}][group.task] = &runs;
    }
  }
  Table accuracies = table_of_tasks(), apart = table_of_tasks(), speeds = table_of_tasks();
  add_ours(accuracies, ours, accuracy_text, [](const Runs& runs) { return mean_of(runs, accuracy_of); });
  add_rows(accuracies, published_accuracies());
  fmt::print("Accuracy of the test sets in %, beside published results\n{}\n", accuracies.str());
  add_rows(apart, published_apart());
  fmt::print("Other models and budgets, not to be ranked with those above\n{}\n", apart.str());
  add_ours(
      speeds, ours, [](const Runs& runs) { return fmt::format("{:.2f}", steps_per_second(runs)); }, steps_per_second);
  add_rows(speeds, published_speeds());
  fmt::print("Training steps a second, beside published ones of a GPU\n{}", speeds.str());
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

void print_table(const fs::path& folder) {
  const Groups groups = groups_in(folder);
  for (const auto& [group, rows] : groups) print_group(group, rows);
  print_beside_published(groups);
}

void draw_figures(const fs::path& folder) {
  std::map<std::string, int> used;
  for (const auto& [group, rows] : groups_in(folder)) {
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
