#include "support/report/lra_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "support/format.h"
#include "support/report/published.h"
#include "support/plot/plot.h"
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

/// Runs that may be compared: of one preset, with the same changes to it, on the same data.
struct Group {
  std::string task, what, data;
  auto operator<=>(const Group&) const = default;
};

/// The runs of a group, by mechanism, each with one run a seed.
using Groups = std::map<Group, std::map<size_t, std::vector<FinishedRun>>>;

std::vector<FinishedRun> finished_runs(const fs::path& folder) {
  std::vector<FinishedRun> runs;
  std::error_code error;
  fs::recursive_directory_iterator entries(folder, error);
  if (error)
    throw IoError(fmt::format("--out {}: {}; name a folder with runs of lra", folder.string(), error.message()));
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().filename() != kResults) continue;
    FinishedRun run;
    run.folder = entry.path().parent_path();
    run.settings = read_config(run.folder, &run.data);
    if (kind_of(run.settings.task) != TaskKind::sequences) continue;
    run.results = *read_results(run.folder);
    runs.push_back(std::move(run));
  }
  if (runs.empty()) {
    throw IoError(
        fmt::format("--out {} holds no finished run of lra; name the folder of some runs", folder.string()));
  }
  return runs;
}

/// What a run's results depend on beside its mechanism and seed.
std::string what_of(const FinishedRun& run) {
  Settings settings = run.settings;
  settings.attention = "softmax";
  settings.options = {};
  return describe(settings);
}

Groups groups_in(const fs::path& folder) {
  Groups groups;
  for (FinishedRun& run : finished_runs(folder)) {
    const Group group{run.settings.task, what_of(run), run.data};
    groups[group][mechanism_index(run.settings.attention)].push_back(std::move(run));
  }
  for (auto& [group, mechanisms] : groups) {
    for (auto& [index, runs] : mechanisms)
      std::ranges::sort(runs, {}, [](const auto& run) { return run.settings.seed; });
  }
  return groups;
}

double mean_of(const std::vector<FinishedRun>& runs, double (*value)(const FinishedRun&)) {
  double sum = 0;
  for (const FinishedRun& run : runs) sum += value(run);
  return sum / static_cast<double>(runs.size());
}

double accuracy_of(const FinishedRun& run) { return 100 * run.results.accuracy.value_or(NAN); }
double ms_of(const FinishedRun& run) { return run.results.ms_per_step; }
double peak_of(const FinishedRun& run) { return static_cast<double>(run.results.peak_bytes); }

/// "37.40", or with several seeds "37.40 ± 0.31 (3 seeds)", where the spread is the standard deviation.
std::string accuracy_text(const std::vector<FinishedRun>& runs) {
  const double mean = mean_of(runs, accuracy_of);
  if (runs.size() == 1) return fmt::format("{:.2f}", mean);
  double squares = 0;
  for (const FinishedRun& run : runs) squares += (accuracy_of(run) - mean) * (accuracy_of(run) - mean);
  const double deviation = std::sqrt(squares / static_cast<double>(runs.size() - 1));
  return fmt::format("{:.2f} ± {:.2f} ({} seeds)", mean, deviation, runs.size());
}

const std::string& mechanism_of(const std::vector<FinishedRun>& runs) { return runs.front().settings.attention; }

void print_group(const Group& group, const std::map<size_t, std::vector<FinishedRun>>& mechanisms) {
  Table table({"attention", "accuracy, %", "best step", "ms/step", "steps/s", "peak memory", "parameters"});
  for (const auto& [index, runs] : mechanisms) {
    const Results& first = runs.front().results;
    table.add_row({mechanism_of(runs), accuracy_text(runs), format_count(first.step),
                   fmt::format("{:.1f}", mean_of(runs, ms_of)), fmt::format("{:.2f}", 1e3 / mean_of(runs, ms_of)),
                   format_bytes(first.peak_bytes), format_count(first.parameters)});
  }
  fmt::print("{}, {}: {}\n{}\n", group.task, group.data, group.what, table.str());
}

/// Whether a run stands beside the published rows: of a whole preset, on the data that they name.
bool is_whole(const FinishedRun& run) {
  const Settings& s = run.settings;
  const Settings published = preset(s.task, s.preset);
  return !s.preset.ends_with("-small") && !run.data.starts_with("stand-in") && s.steps == published.steps;
}

void add_rows(Table& table, const std::vector<PublishedRow>& rows) {
  for (const PublishedRow& row : rows) {
    std::vector<std::string> cells{row.mechanism};
    double sum = 0;
    for (const double value : row.values) {
      cells.push_back(fmt::format("{:.2f}", value));
      sum += value;
    }
    cells.insert(cells.end(), {fmt::format("{:.2f}", sum / 5), row.source});
    table.add_row(cells);
  }
}

/// The accuracies of whole runs beside the published ones, with a row for each mechanism and preset.
void print_beside_published(const Groups& groups) {
  const std::vector<std::string> columns{"attention", "listops",    "text",    "retrieval",
                                         "image",     "pathfinder", "average", "source"};
  std::map<std::pair<size_t, std::string>, std::map<std::string, std::string>> ours;
  for (const auto& [group, mechanisms] : groups) {
    for (const auto& [index, runs] : mechanisms) {
      if (!is_whole(runs.front())) continue;
      const bool nystrom = runs.front().settings.preset.ends_with("-nystrom");
      ours[{index, nystrom ? "linnet, presets lra-TASK-nystrom" : "linnet, presets lra-TASK"}][group.task] =
          accuracy_text(runs);
    }
  }
  Table table(columns);
  for (const auto& [row, values] : ours) {
    std::vector<std::string> cells{linnet::nn::attention_mechanisms()[row.first]};
    for (const std::string& task : kPublishedTasks) {
      const auto value = values.find(task);
      cells.push_back(value != values.end() ? value->second : "-");
    }
    cells.insert(cells.end(), {"-", row.second});
    table.add_row(cells);
  }
  add_rows(table, published_accuracies());
  fmt::print("Accuracy of the test sets in %, beside published results\n{}\n", table.str());
  Table apart(columns);
  add_rows(apart, published_apart());
  fmt::print("Other models and budgets, not to be ranked with those above\n{}\n", apart.str());
  Table speeds(columns);
  add_rows(speeds, published_speeds());
  fmt::print("Published training steps a second\n{}", speeds.str());
}

/// A name for the files of a group: the preset, with a number where several groups share it.
std::string file_name(const std::string& preset, std::map<std::string, int>& used) {
  const int number = ++used[preset];
  return number == 1 ? preset : fmt::format("{}-{}", preset, number);
}

void draw_accuracies(const Group& group, const std::map<size_t, std::vector<FinishedRun>>& mechanisms,
                     const fs::path& path) {
  double most = 0;
  for (const auto& [index, runs] : mechanisms) most = std::max(most, mean_of(runs, peak_of));
  LineChart chart{.title = fmt::format("{}: accuracy against speed, area in proportion to peak memory (largest {})",
                                       group.task, format_bytes(static_cast<int64_t>(most))),
                  .subtitle = fmt::format("{}, {}", group.data, group.what),
                  .x_label = "training steps a second",
                  .y_label = "accuracy, %",
                  .log_x = true};
  for (const auto& [index, runs] : mechanisms) {
    chart.series.push_back({.label = mechanism_of(runs),
                            .x = {1e3 / mean_of(runs, ms_of)},
                            .y = {mean_of(runs, accuracy_of)},
                            .color = index,
                            .areas = {mean_of(runs, peak_of) / most}});
  }
  write_png(chart, path);
}

void draw_group_losses(const Group& group, const std::map<size_t, std::vector<FinishedRun>>& mechanisms,
                       Against against, const fs::path& path) {
  std::vector<TrainingResult> results;
  results.reserve(mechanisms.size());
  std::vector<std::pair<std::string, const TrainingResult*>> curves;
  for (const auto& [index, runs] : mechanisms) {
    results.emplace_back().history = read_metrics(runs.front().folder);
    curves.emplace_back(mechanism_of(runs), &results.back());
  }
  draw_losses(
      curves, against,
      fmt::format("{}: validation loss {}", group.task, against == Against::steps ? "step by step" : "in equal time"),
      fmt::format("{}, {}", group.data, group.what), path);
}

}  // namespace

void print_table(const fs::path& folder) {
  const Groups groups = groups_in(folder);
  for (const auto& [group, mechanisms] : groups) print_group(group, mechanisms);
  print_beside_published(groups);
}

void draw_figures(const fs::path& folder) {
  std::map<std::string, int> used;
  for (const auto& [group, mechanisms] : groups_in(folder)) {
    const std::string name = file_name(mechanisms.begin()->second.front().settings.preset, used);
    const fs::path accuracy = folder / (name + "-accuracy.png"), steps = folder / (name + "-loss.png"),
                   seconds = folder / (name + "-loss-seconds.png");
    draw_accuracies(group, mechanisms, accuracy);
    draw_group_losses(group, mechanisms, Against::steps, steps);
    draw_group_losses(group, mechanisms, Against::seconds, seconds);
    fmt::print("{}\n{}\n{}\n", accuracy.string(), steps.string(), seconds.string());
  }
}

}  // namespace linnet::examples
