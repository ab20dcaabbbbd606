#include "support/report/runs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "support/settings/program.h"
#include "support/spread.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

/// The settings without those of the mechanism.
Settings without_mechanism(const Settings& settings) {
  Settings plain = settings_of("softmax", settings);
  plain.options = preset(settings.task, settings.preset).options;
  return plain;
}

/// The settings of a classifier of texts, without those that come from table 9 of Wu et al. 2021 (softmax attention
/// reads 512 words, Fastformer shares layers) or from the format of the texts.
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

std::nullopt_t left_out(const fs::path& folder, std::string_view why) {
  fmt::print(stderr, "leaving out {}: {}\n", folder.string(), why);
  return std::nullopt;
}

/// The run of a task of this kind in a folder. A line on stderr says which folders cannot be read.
std::optional<FinishedRun> finished_run(const fs::path& folder, TaskKind kind) {
  try {
    FinishedRun run;
    run.folder = folder;
    run.settings = read_config(folder, &run.data);
    const std::optional<Results> results = read_results(folder);
    if (!results || kind_of(run.settings.task) != kind) return std::nullopt;
    (void)preset(run.settings.task, run.settings.preset);  // throws if this version has no such preset
    run.machines = machines_of(folder);
    run.results = *results;
    if (const int64_t count = results->processes.count; count > 1) {
      for (std::string& machine : run.machines) machine += fmt::format(", {} processes", count);
    }
    run.history = read_metrics(folder);
    return run;
  } catch (const IoError& error) {
    return left_out(folder, error.message());
  } catch (const UsageError& error) {
    return left_out(folder, error.what());
  }
}

std::vector<FinishedRun> finished_runs(const fs::path& folder, TaskKind kind) {
  const std::string program = programs_of(task_names(kind).front());
  std::vector<FinishedRun> runs;
  std::error_code error;
  fs::recursive_directory_iterator entries(folder, fs::directory_options::skip_permission_denied, error);
  if (error)
    throw IoError(
        fmt::format("--out {}: {}; name a folder with runs of {}", folder.string(), error.message(), program));
  std::set<fs::path> folders;  // sorted, so that always the same one of equal runs counts
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().filename() == kResults) folders.insert(entry.path().parent_path());
  }
  for (const fs::path& each : folders) {
    if (auto run = finished_run(each, kind)) runs.push_back(std::move(*run));
  }
  if (runs.empty()) {
    throw IoError(
        fmt::format("--out {} holds no finished run of {}; name the folder of some runs", folder.string(), program));
  }
  return runs;
}

/// What a run's results depend on besides its mechanism and seed.
std::string what_of(const FinishedRun& run) {
  const Settings& s = run.settings;
  return describe(without_mechanism(s)) + (s.device == "cpu" ? "" : ", device " + s.device);
}

/// The values that the preset gives to the options of the run's mechanism.
std::map<std::string, std::string> published_options(const Settings& s) {
  return all_options(settings_of(s.attention, preset(s.task, s.preset)));
}

/// Whether the mechanism shares the parameters that it shares in the preset.
bool shares_as_published(const Settings& s) { return all_options(s)["share"] == published_options(s)["share"]; }

/// The mechanism, with those of its options that differ from the preset's.
Row row_of(const Settings& s) {
  const std::map<std::string, std::string> before = published_options(s);
  Row row{mechanism_index(s.attention), s.attention};
  for (const auto& [name, value] : all_options(s)) {
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

double ms_of(const FinishedRun& run) { return run.results.ms_per_step; }
double peak_of(const FinishedRun& run) { return static_cast<double>(run.results.peak_bytes); }
double steps_per_second(const Runs& runs) { return 1e3 / mean_of(runs, ms_of); }

void add_runs(const Group& group, const Runs& runs, const std::string& source,
              const std::function<TaskRuns&(const std::string& source)>& tasks_of) {
  const bool is_taken = tasks_of(source).contains(group.task);
  const auto [place, is_new] = tasks_of(is_taken ? source + ", " + group.data : source).emplace(group.task, &runs);
  if (is_new) return;
  fmt::print(stderr, "leaving out {} beside published results: {} has its place\n", runs.front().folder.string(),
             place->second->front().folder.string());
}

bool is_whole(const FinishedRun& run) {
  Settings s = without_table_9(run.settings);
  s.lra.black_is_padding = false;
  return !s.preset.ends_with("-small") && !run.data.starts_with("stand-in") &&
         length_of(s) == length_of(preset(s.task, s.preset)) && shares_as_published(s) &&
         describe_model(without_mechanism(s)) == "preset " + s.preset;
}

}  // namespace linnet::examples
