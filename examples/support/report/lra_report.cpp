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
  add_ours(
      accuracies, ours, [](const Runs& runs) { return percent_text(runs, accuracy_of); },
      [](const Runs& runs) { return mean_of(runs, accuracy_of); });
  add_rows(accuracies, published_accuracies());
  fmt::print("Accuracy of the test sets in %, beside published results\n{}\n", accuracies.str());
  add_rows(apart, published_apart());
  fmt::print("Other models and budgets, not to be ranked with those above\n{}\n", apart.str());
  add_ours(
      speeds, ours, [](const Runs& runs) { return fmt::format("{:.2f}", steps_per_second(runs)); }, steps_per_second);
  add_rows(speeds, published_speeds());
  fmt::print("Training steps a second, beside published ones of a GPU\n{}", speeds.str());
}

}  // namespace

void print_lra_table(const std::filesystem::path& folder) {
  const Groups groups = groups_in(folder, TaskKind::sequences);
  print_groups(groups);
  print_beside_published(groups);
}

}  // namespace linnet::examples
