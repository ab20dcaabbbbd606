#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "support/report/group_table.h"
#include "support/report/published.h"
#include "support/report/report_program.h"
#include "support/report/runs.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

/// A table with a column for each published task.
Table table_of_tasks() {
  return Table({"attention", "listops", "text", "retrieval", "image", "pathfinder", "average", "source"});
}

/// Adds the rows, with the number of `digits` after the point that the paper prints.
void add_rows(Table& table, const std::vector<PublishedRow>& rows, int digits) {
  for (const PublishedRow& row : rows) {
    std::vector<std::string> cells{row.mechanism};
    for (const double value : row.values) cells.push_back(fmt::format("{:.{}f}", value, digits));
    cells.insert(cells.end(), {fmt::format("{:.{}f}", row.average, digits), row.source});
    table.add_row(cells);
  }
}

/// The tasks of each row of linnet's, by mechanism and source.
using OwnRows = std::map<std::pair<Row, std::string>, TaskRuns>;

/// The preset, and whatever else distinguishes runs of the same mechanism.
std::string lra_source(const FinishedRun& run) {
  const Settings& s = run.settings;
  return fmt::format("linnet, presets lra-TASK{}{}", s.preset.ends_with("-nystrom") ? "-nystrom" : "",
                     s.device == "cpu" ? "" : ", device " + s.device);
}

/// How black pixels are treated; empty for a task without pixels.
std::string black_of(const Settings& s) {
  if (s.task != "image" && s.task != "pathfinder") return "";
  return s.lra.black_is_padding ? ", black is padding" : ", black is seen";
}

/// The rows of the runs that are shown beside published ones. Tasks without pixels are in the rows of both treatments
/// of black pixels.
OwnRows own_rows(const Groups& groups) {
  std::map<std::pair<Row, std::string>, std::map<std::string, TaskRuns>> found;  // and by black_of
  for (const auto& [group, rows] : groups) {
    for (const auto& [row, runs] : rows) {
      if (!is_whole(runs.front()) || std::ranges::count(kPublishedTasks, group.task) == 0) continue;
      const std::string black = black_of(runs.front().settings);
      add_runs(group, runs, lra_source(runs.front()),
               [&](const std::string& source) -> TaskRuns& { return found[{row, source}][black]; });
    }
  }
  OwnRows all;
  for (auto& [key, by_black] : found) {
    const TaskRuns without_pixels = by_black[""];
    if (by_black.size() > 1) by_black.erase("");
    for (auto& [black, tasks] : by_black) {
      tasks.insert(without_pixels.begin(), without_pixels.end());
      all[{key.first, key.second + black}] = std::move(tasks);
    }
  }
  return all;
}

/// Adds linnet's rows. `text` makes a cell, and `value` makes the numbers for the average.
void add_ours(Table& table, const OwnRows& ours, std::string (*text)(const Runs&), double (*value)(const Runs&)) {
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
  const OwnRows ours = own_rows(groups);
  Table accuracies = table_of_tasks(), apart = table_of_tasks(), speeds = table_of_tasks();
  add_ours(
      accuracies, ours, [](const Runs& runs) { return percent_text(runs, accuracy_of); },
      [](const Runs& runs) { return mean_of(runs, accuracy_of); });
  add_rows(accuracies, published_accuracies(), 2);
  fmt::print("Test accuracy in %, beside published results\n{}\n", accuracies.str());
  add_rows(apart, published_apart(), 2);
  fmt::print("Other models and budgets, not to be ranked with those above\n{}\n", apart.str());
  add_ours(
      speeds, ours, [](const Runs& runs) { return fmt::format("{:.2f}", steps_per_second(runs)); }, steps_per_second);
  add_rows(speeds, published_speeds(), 1);
  fmt::print(
      "Training steps a second, beside published ones of a GPU. These pad every batch to the full length, 2,000 or\n"
      "4,000 tokens, and ours pad it to its longest sequence, so that the steps are not the same work.\n{}",
      speeds.str());
}

}  // namespace

void print_lra_table(const std::filesystem::path& folder) {
  const Groups groups = groups_in(folder, TaskKind::sequences);
  print_groups(groups);
  print_beside_published(groups);
}

}  // namespace linnet::examples
