#include "support/run/compare.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "support/format.h"
#include "support/ranks.h"
#include "support/run/loss_chart.h"
#include "support/run/training.h"
#include "support/run/training_step.h"
#include "support/settings/inapplicable.h"
#include "support/settings/program.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

// Gerami et al. 2024, figure 6
constexpr const char *kBySteps = "compare.png", *kBySeconds = "compare-seconds.png";

/// The data of the runs of a program, and a sample of each mechanism's first model.
struct CommonData {
  std::string name, of_test;
  std::vector<std::string> samples;
};

/// "seed 1337", or "seeds 1337 to 1341".
std::string seeds_of(const Settings& first, int64_t seeds) {
  if (seeds == 1) return fmt::format("seed {}", first.seed);
  return fmt::format("seeds {} to {}", first.seed, first.seed + static_cast<uint64_t>(seeds) - 1);
}

/// The settings of a mechanism's run with seed number `seed` of `seeds`.
Settings settings_for(const std::string& attention, const Settings& common, int64_t seed, int64_t seeds) {
  Settings settings = settings_of(attention, common);
  settings.seed += static_cast<uint64_t>(seed);
  settings.out = common.out / (row_name(settings) + (seeds == 1 ? "" : fmt::format("-{}", settings.seed)));
  validate(settings);
  settle_run(settings);
  return settings;
}

/// The settings of each run. All are checked before the first run trains, so that no bad flag ends the program
/// halfway.
std::vector<Settings> settings_for_all(const std::vector<std::string>& mechanisms, const Settings& common,
                                       int64_t seeds) {
  check_options_apply(common, "--attention", mechanisms);
  std::vector<Settings> runs;
  for (const std::string& attention : mechanisms) {
    if (std::count(mechanisms.begin(), mechanisms.end(), attention) > 1) {
      throw UsageError(fmt::format("--attention names {} twice", attention));
    }
    for (int64_t seed = 0; seed < seeds; ++seed) runs.push_back(settings_for(attention, common, seed, seeds));
  }
  check_any_began(runs, common);
  check_pictures(common, {kBySteps, kBySeconds});
  return runs;
}

/// Trains the runs, if no mechanism refuses the lengths of their common data. The samples of each mechanism's first
/// run are printed at the end.
std::vector<ComparedRuns> train_all(const std::vector<Settings>& runs, const CompareProgram& program,
                                    CommonData& data) {
  std::vector<ComparedRuns> compared;
  for (const Settings& settings : runs) {
    const std::unique_ptr<Task> task = make_task(settings);
    if (compared.empty()) {
      for (const Settings& each : runs) check_lengths(each, *task);
    }
    const bool is_new = compared.empty() || compared.back().name != row_name(settings);
    if (const std::string note = note_of(settings, *task); is_new && !note.empty()) {
      fmt::print("{} here: {}\n", row_name(settings), note);
    }
    data.name = task->data_name();
    data.of_test = task->test_data();
    TrainingResult result = train(*task, settings, /*others_began=*/!compared.empty());
    if (is_new) {
      compared.push_back({.name = row_name(settings), .results = {}, .more = {}});
      data.samples.push_back(task->sample(200));
    }
    compared.back().results.push_back(std::move(result));
    compared.back().more.push_back(program.more_measures ? program.more_measures(*task) : Measures{});
  }
  return compared;
}

std::string table_of(const std::vector<ComparedRuns>& compared, bool of_test) {
  const Task::Evaluation& evaluated = compared.front().results.front().full;
  std::vector<std::string> columns{"attention", of_test ? "test loss" : "val loss"};
  if (evaluated.accuracy) columns.emplace_back("accuracy");
  for (const auto& measure : evaluated.measures) columns.push_back(measure.first);
  columns.insert(columns.end(), {"ms/step", "tokens/s", "parameters", "peak memory"});
  for (const auto& measure : compared.front().more.front()) columns.push_back(measure.first);
  Table table(columns);
  for (const ComparedRuns& runs : compared) {
    const auto mean = [&](const auto& value) { return runs.spread(value).mean(); };
    std::vector<std::string> cells{runs.name, runs.spread([](const auto& r) { return r.full.loss; }).text(4)};
    if (evaluated.accuracy) {
      cells.push_back(runs.spread([](const auto& r) { return 100 * *r.full.accuracy; }).text(2) + " %");
    }
    for (size_t i = 0; i < evaluated.measures.size(); ++i) {
      cells.push_back(runs.spread([=](const auto& r) { return r.full.measures[i].second; }).text(4));
    }
    cells.insert(cells.end(), {fmt::format("{:.1f}", mean(&TrainingResult::ms_per_step)),
                               format_count(static_cast<int64_t>(mean(&TrainingResult::tokens_per_second))),
                               format_count(runs.results.front().parameters),
                               format_bytes(static_cast<int64_t>(mean(&TrainingResult::peak_bytes)))});
    for (size_t i = 0; i < runs.more.front().size(); ++i) cells.push_back(runs.spread_of_more(i).text(2));
    table.add_row(cells);
  }
  return table.str();
}

void compare(const std::vector<Settings>& runs, const Settings& settings, const CompareProgram& program) {
  apply_machine_settings(settings);
  catch_interrupts();
  check_ranks(settings);
  CommonData data;
  const std::vector<ComparedRuns> compared = train_all(runs, program, data);
  if (!is_first_rank()) return;
  std::vector<LossCurve> curves;  // of the first seed
  for (const ComparedRuns& of : compared) {
    const std::string& sample = data.samples[curves.size()];
    if (!sample.empty()) fmt::print("\n---- {} writes ----\n{}\n", of.name, sample);
    curves.push_back({.label = of.name, .color = mechanism_index(of.name), .history = of.results.front().history});
  }
  const bool of_test = settings.keep_best || data.of_test == "test data";
  const std::string what = fmt::format("{}, {}", data.name, describe(settings));
  const int64_t seeds = std::ssize(compared.front().results);
  fmt::print("\n{}, {}; {}{}\n{}", what, seeds_of(settings, seeds),
             settings.keep_best ? "test data, by the weights with the best validation accuracy"
                                : "losses on " + data.of_test,
             seeds == 1 ? "" : "; mean ± sample standard deviation", table_of(compared, of_test));
  if (program.finish) program.finish(compared);
  const std::filesystem::path steps = settings.out / kBySteps, seconds = settings.out / kBySeconds;
  const std::string drawn = fmt::format("{}, {}", what, seeds_of(settings, 1));
  write_png(loss_chart(curves, Against::steps, "Attention mechanisms compared, step by step", drawn), steps);
  write_png(loss_chart(curves, Against::seconds, "Attention mechanisms compared, in equal time", drawn), seconds);
  fmt::print("\nloss curves: {}\n             {}\n", steps.string(), seconds.string());
}

/// The mechanisms if --attention is absent or `all`.
std::vector<std::string> default_mechanisms(const Settings& settings, bool all, const CompareProgram& program) {
  if (row_name(settings) != settings.attention) return {settings.attention};  // the encoder allows no choice
  if (!all && !program.mechanisms.empty()) return program.mechanisms;
  return kind_of(settings.task) == TaskKind::text ? linnet::nn::causal_mechanisms()
                                                  : linnet::nn::attention_mechanisms();
}

}  // namespace

Spread ComparedRuns::spread(const std::function<double(const TrainingResult&)>& value) const {
  Spread spread;
  for (const TrainingResult& result : results) spread.values.push_back(value(result));
  return spread;
}

Spread ComparedRuns::spread_of_more(size_t i) const {
  Spread spread;
  for (const Measures& measures : more) spread.values.push_back(measures[i].second);
  return spread;
}

int compare_program(int argc, char** argv, const CompareProgram& program) {
  CLI::App app(program.description, program.name);
  return run_program(app, [&] {
    join_ranks();
    const std::vector<std::string> tasks = program.tasks.empty() ? task_names() : program.tasks;
    std::string task = tasks.size() > 1 ? task_from_flag(argc, argv, tasks) : tasks.front();
    Settings settings = settings_from_preset(argc, argv, task, preset_names(task).front());
    if (!program.start.empty()) {
      settings.command.erase(settings.command.begin());
      settings.command.insert(settings.command.begin(), program.start.begin(), program.start.end());
    }
    std::vector<std::string> mechanisms;
    int64_t seeds = 1;
    settings.out = tasks.size() > 1 ? "out/compare-" + task : "out/" + program.name;
    add_common_flags(app, settings);
    if (tasks.size() > 1) add_task_flag(app, task, tasks);
    add_mechanism_list(app, "--attention", mechanisms);
    add_attention_option_flags(app, settings);
    add_model_flags(app, settings);
    add_training_flags(app, settings);
    app.add_option("--seeds", seeds, "runs of each mechanism, from --seed on")->check(whole_number(1, 1000));
    app.add_option("--out", settings.out, "folder for all results, one folder in it for each run")->check(path());
    app.add_flag("--resume", settings.resume, "go on with what is in --out; give the same flags");
    if (program.add_flags) program.add_flags(app);
    app.parse(argc, argv);
    settle_training_flags(app, settings);
    refuse_inapplicable_flags(app, settings);
    if (mechanisms.empty()) mechanisms = default_mechanisms(settings, app.count("--attention") > 0, program);
    const std::vector<Settings> runs = settings_for_all(mechanisms, settings, seeds);
    if (program.check) program.check(runs);
    compare(runs, settings, program);
  });
}

}  // namespace linnet::examples
