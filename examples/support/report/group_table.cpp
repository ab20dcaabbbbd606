#include "support/report/group_table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "support/format.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

constexpr double kNearSoftmax = 3;  // percentage points; a mechanism that is further below is marked

/// "1337", "1337, 1339" or "1337 to 1341".
std::string seeds_text(const Runs& runs) {
  const uint64_t first = runs.front().settings.seed, last = runs.back().settings.seed;
  if (runs.size() > 2 && last - first + 1 == runs.size()) return fmt::format("{} to {}", first, last);
  std::vector<uint64_t> seeds;
  for (const FinishedRun& run : runs) seeds.push_back(run.settings.seed);
  return fmt::format("{}", fmt::join(seeds, ", "));
}

const Runs* softmax_runs(const Rows& rows) {
  const auto found = rows.find({mechanism_index("softmax"), "softmax"});
  return found == rows.end() ? nullptr : &found->second;
}

/// The mean difference of accuracies at the seeds that both have: "-0.52", "-4.20, over 3 below"; "-" without any.
std::string difference_text(const Runs& runs, const Runs* softmax) {
  if (softmax == nullptr || softmax == &runs) return "-";
  double sum = 0;
  size_t common = 0;
  for (const FinishedRun& run : runs) {
    const auto same = std::ranges::find(*softmax, run.settings.seed, [](const auto& r) { return r.settings.seed; });
    if (same == softmax->end()) continue;
    sum += accuracy_of(run) - accuracy_of(*same);
    ++common;
  }
  if (common == 0) return "-";
  const double mean = sum / static_cast<double>(common);
  std::string text = fmt::format("{:+.2f}", mean);
  if (common < runs.size()) text += fmt::format(" ({} seed{})", common, common == 1 ? "" : "s");
  if (mean < -kNearSoftmax) text += fmt::format(", over {} below", kNearSoftmax);
  return text;
}

/// The accuracy of the most common answer, which is the same for all runs of a group. Older runs did not write it.
std::optional<double> constant_accuracy_of(const Rows& rows) {
  for (const auto& [row, runs] : rows) {
    for (const FinishedRun& run : runs) {
      if (run.results.constant_accuracy) return run.results.constant_accuracy;
    }
  }
  return std::nullopt;
}

std::string table_of(const Rows& rows) {
  const bool has_macro_f = !std::isnan(macro_f_of(rows.begin()->second.front()));
  std::vector<std::string> columns{"attention", "seeds",   "test accuracy, %", "to softmax",
                                   "ms/step",   "steps/s", "peak memory",      "parameters"};
  const auto with_macro_f = [&](std::vector<std::string> cells, const std::string& macro_f) {
    if (has_macro_f) cells.insert(cells.begin() + 4, macro_f);
    return cells;
  };
  Table table(with_macro_f(columns, "macro-F, %"));
  for (const auto& [row, runs] : rows) {
    table.add_row(with_macro_f(
        {row.label, seeds_text(runs), percent_text(runs, accuracy_of), difference_text(runs, softmax_runs(rows)),
         fmt::format("{:.1f}", mean_of(runs, ms_of)), fmt::format("{:.2f}", steps_per_second(runs)),
         format_bytes(static_cast<int64_t>(mean_of(runs, peak_of))), format_count(runs.front().results.parameters)},
        percent_text(runs, macro_f_of)));
  }
  if (const auto constant = constant_accuracy_of(rows)) {
    table.add_row(with_macro_f(
        {"commonest answer", "-", fmt::format("{:.2f}", 100 * *constant), "-", "-", "-", "-", "-"}, "-"));
  }
  return table.str();
}

void print_seeds(const Rows& rows) {
  for (const auto& [row, runs] : rows) {
    if (runs.size() == 1) continue;
    std::vector<std::string> values;
    for (const FinishedRun& run : runs) {
      values.push_back(fmt::format("{:.2f} (seed {})", accuracy_of(run), run.settings.seed));
    }
    fmt::print("{}: {}\n", row.label, fmt::join(values, ", "));
  }
}

/// Prints which machine computed which rows.
void print_machines(const Group& group, const Rows& rows) {
  std::map<std::string, std::vector<std::string>> labels;  // by machine
  for (const auto& [row, runs] : rows) {
    for (const FinishedRun& run : runs) {
      const std::vector<std::string> unknown{"unknown"};
      for (const std::string& machine : run.machines.empty() ? unknown : run.machines) {
        std::vector<std::string>& of_machine = labels[machine];
        if (of_machine.empty() || of_machine.back() != row.label) of_machine.push_back(row.label);
      }
    }
  }
  if (labels.size() == 1) {
    fmt::print("machine: {}\n", labels.begin()->first);
    return;
  }
  constexpr const char* kWarning = "machines, threads or processes differ, so that ms/step cannot be compared";
  fmt::print("{}:\n", kWarning);
  for (const auto& [machine, rows_of] : labels) fmt::print("  {}: {}\n", fmt::join(rows_of, "; "), machine);
  fmt::print(stderr, "{}, {}: {}\n", group.task, group.what, kWarning);
}

}  // namespace

void print_groups(const Groups& groups) {
  for (const auto& [group, rows] : groups) {
    fmt::print("{}, {}: {}\n{}", group.task, group.data, group.what, table_of(rows));
    print_seeds(rows);
    print_machines(group, rows);
    fmt::print("\n");
  }
}

}  // namespace linnet::examples
