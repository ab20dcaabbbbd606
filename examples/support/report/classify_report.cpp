#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "support/report/group_table.h"
#include "support/report/published.h"
#include "support/report/report_program.h"
#include "support/report/runs.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

void add_published(Table& table) {
  for (const PublishedTexts& row : published_classifications()) {
    std::vector<std::string> cells{row.mechanism};
    for (const auto& [accuracy, macro_f] : row.values) {
      cells.push_back(fmt::format("{:.2f}", accuracy));
      cells.push_back(fmt::format("{:.2f}", macro_f));
    }
    cells.emplace_back("Wu et al. 2021, table 4");
    table.add_row(cells);
  }
}

/// The presets, and whatever else distinguishes whole runs of the same mechanism.
std::string classify_source(const FinishedRun& run) {
  const Settings& s = run.settings;
  std::string source = "linnet, presets classify-TASK";
  if (shares(s, "layers")) source += ", shared layers";
  if (s.context != preset(s.task, s.preset).context) source += fmt::format(", {} words", s.context);
  if (s.device != "cpu") source += ", device " + s.device;
  return source;
}

/// Adds a row for each mechanism with runs of whole presets.
void add_ours(Table& table, const Groups& groups) {
  std::map<std::pair<Row, std::string>, TaskRuns> ours;  // by mechanism and source
  for (const auto& [group, rows] : groups) {
    for (const auto& [row, runs] : rows) {
      if (!is_whole(runs.front())) continue;
      add_runs(group, runs, classify_source(runs.front()),
               [&](const std::string& source) -> TaskRuns& { return ours[{row, source}]; });
    }
  }
  for (const auto& [row, tasks] : ours) {
    std::vector<std::string> cells{row.first.label};
    for (const std::string& task : kPublishedTexts) {
      const auto runs = tasks.find(task);
      for (const auto percent : {accuracy_of, macro_f_of}) {
        cells.push_back(runs == tasks.end() ? "-" : percent_text(*runs->second, percent));
      }
    }
    cells.push_back(row.second);
    table.add_row(cells);
  }
}

}  // namespace

void print_classify_table(const std::filesystem::path& folder) {
  const Groups groups = groups_in(folder, TaskKind::labelled_texts);
  print_groups(groups);
  std::vector<std::string> columns{"attention"};
  for (const std::string& task : kPublishedTexts) columns.insert(columns.end(), {task, "macro-F"});
  columns.emplace_back("source");
  Table table(columns);
  add_ours(table, groups);
  add_published(table);
  fmt::print("Accuracy and macro-F of the test sets in %, beside published results\n{}", table.str());
}

}  // namespace linnet::examples
