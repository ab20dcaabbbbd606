#pragma once

#include <compare>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "support/run/results.h"
#include "support/run/run_folder.h"
#include "support/settings/settings.h"

/// Finished runs side by side, for tables and figures.

namespace linnet::examples {

struct FinishedRun {
  std::filesystem::path folder;
  Settings settings;
  std::string data;
  /// Linnet's version, the processor and its kernels, and the numbers of threads and, if there were several,
  /// processes; several texts if a resumed run's differ.
  std::vector<std::string> machines;
  Results results;
  std::vector<Metrics> history;
};

/// Runs that may be compared: of one preset, with the same changes to it, on the same data and device.
struct Group {
  std::string task, what, data;
  auto operator<=>(const Group&) const = default;
};

/// A mechanism with its options, in the order of tables and pictures.
struct Row {
  size_t mechanism = 0;  ///< its index in the list of all
  std::string label;     ///< its name, and the options that differ from the preset's: "NAME, share heads"
  auto operator<=>(const Row&) const = default;
};

/// One run for each seed.
using Runs = std::vector<FinishedRun>;
using Rows = std::map<Row, Runs>;
using Groups = std::map<Group, Rows>;

/// The finished runs of tasks of this kind in a folder and its subfolders. A line on stderr says which are left out.
///
/// Throws: IoError if there is none.
Groups groups_in(const std::filesystem::path& folder, TaskKind kind);

double mean_of(const Runs& runs, double (*value)(const FinishedRun&));
double accuracy_of(const FinishedRun& run);  ///< of the test data, in %
double macro_f_of(const FinishedRun& run);   ///< in %; NaN for a run without
double ms_of(const FinishedRun& run);        ///< of a step
double peak_of(const FinishedRun& run);      ///< peak memory in bytes
double steps_per_second(const Runs& runs);
/// "37.40", or with several seeds "37.40 ± 0.31 (3 seeds)", where the spread is the sample standard deviation.
std::string percent_text(const Runs& runs, double (*percent)(const FinishedRun&));

/// The runs of each task in a row beside published results.
using TaskRuns = std::map<std::string, const Runs*>;
/// Adds the runs of a group to a row beside published results, which `tasks_of(source)` returns. If that row has runs
/// of the task already, the source also names the data; if these are the same too, a line on stderr names the runs
/// that are left out.
void add_runs(const Group& group, const Runs& runs, const std::string& source,
              const std::function<TaskRuns&(const std::string& source)>& tasks_of);

/// Whether a run is shown beside published rows: it must be a preset's without changes, on the data that they name.
/// It may treat black pixels as padding or not: the published runs do, and the table says which of linnet's runs do.
bool is_whole(const FinishedRun& run);

}  // namespace linnet::examples
