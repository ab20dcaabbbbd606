/// The papers' ablations on the data at hand. Wu et al. 2021: how a global vector is combined with a token (figure
/// 3), and which parameters are shared (figure 4). Gerami et al. 2024: what dropout drops, and how much (figure 2).

#include <algorithm>
#include <functional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "support/plot/bar_chart.h"
#include "support/plot/plot.h"
#include "support/ranks.h"
#include "support/run/training.h"
#include "support/settings/choices.h"
#include "support/settings/inapplicable.h"
#include "support/settings/program.h"
#include "support/spread.h"
#include "support/table.h"

using namespace linnet::examples;

namespace {

struct Variant {
  std::string name;
  std::function<void(Settings&)> change;
};

struct Ablation {
  std::string name, title;
  std::string attention;
  std::vector<Variant> variants;
};

const std::vector<std::string> kNames{"interaction", "sharing", "dropout"};

Ablation interaction() {
  return {"interaction",
          "Interaction function (Wu et al. 2021, figure 3)",
          "fastformer",
          {{"product", [](Settings& s) { s.options["fastformer_interaction"] = "product"; }},
           {"add", [](Settings& s) { s.options["fastformer_interaction"] = "add"; }},
           {"concat", [](Settings& s) { s.options["fastformer_interaction"] = "concat"; }}}};
}

Ablation sharing() {
  return {"sharing",
          "Parameter sharing (Wu et al. 2021, figure 4)",
          "fastformer",
          {{"none", [](Settings& s) { s.share = {"none"}; }},
           {"query-value", [](Settings& s) { s.share = {"query-value"}; }},
           {"+ heads", [](Settings& s) { s.share = {"query-value", "heads"}; }},
           {"+ layers", [](Settings& s) { s.share = {"query-value", "layers"}; }},
           {"+ heads, layers", [](Settings& s) { s.share = {"query-value", "heads", "layers"}; }}}};
}

std::vector<std::string> dropout_kinds() { return option_words("fastmax2", "dropout_kind"); }

/// The first variant has no dropout; the others are each kind at each rate.
Ablation dropout(const std::vector<double>& rates) {
  Ablation ablation{"dropout", "Dropout in Fastmax (Gerami et al. 2024, figure 2)", "fastmax2", {}};
  ablation.variants.push_back({"none", [](Settings&) {}});
  for (const std::string& kind : dropout_kinds()) {
    for (const double rate : rates) {
      ablation.variants.push_back({fmt::format("{} {}", kind, rate), [=](Settings& s) {
                                     s.options["dropout_kind"] = kind;
                                     s.attention_dropout = rate;
                                   }});
    }
  }
  return ablation;
}

/// The results of a variant's runs, one number for each seed. `measure` says what the number is.
struct Outcome {
  std::string variant;
  int64_t parameters = 0;
  Spread results;
};

/// The name of its chart.
std::string picture_of(const Ablation& ablation) { return ablation.name + ".png"; }

Settings settings_for(const Settings& common, const Ablation& ablation, const Variant& variant, int64_t seed) {
  Settings s = settings_of(ablation.attention, common);
  variant.change(s);
  s.seed = common.seed + static_cast<uint64_t>(seed);
  s.out = common.out / ablation.name / fmt::format("{}-{}", variant.name, s.seed);
  validate(s);
  settle_run(s);
  return s;
}

/// Checks the settings of all runs before the first one trains, so that no bad flag ends the program halfway.
void validate_all(const Settings& common, const std::vector<Ablation>& ablations, int64_t seeds) {
  std::vector<Settings> runs;
  std::vector<std::string> pictures;
  for (const Ablation& ablation : ablations) {
    pictures.push_back(picture_of(ablation));
    for (const Variant& variant : ablation.variants) {
      for (int64_t seed = 0; seed < seeds; ++seed) {
        runs.push_back(settings_for(common, ablation, variant, seed));
      }
    }
  }
  check_any_began(runs, common);
  check_pictures(common, pictures);
}

/// Whether the result is an accuracy, as in the papers' figures for classification. Gerami et al.'s figure on dropout
/// shows losses.
bool by_accuracy(const Settings& common, const Ablation& ablation) {
  return kind_of(common.task) != TaskKind::text && ablation.name != "dropout";
}

std::string measure(const Settings& common, const Ablation& ablation) {
  if (by_accuracy(common, ablation)) return "accuracy, %";
  return kind_of(common.task) == TaskKind::text ? "validation loss" : "test loss";
}

/// Sets `data` to the name of the data.
Outcome run_variant(const Settings& common, const Ablation& ablation, const Variant& variant, int64_t seeds,
                    std::string& data) {
  Outcome outcome;
  outcome.variant = variant.name;
  for (int64_t seed = 0; seed < seeds; ++seed) {
    const Settings settings = settings_for(common, ablation, variant, seed);
    fmt::print("{}, {}, seed {}\n", ablation.name, variant.name, settings.seed);
    const std::unique_ptr<Task> task = make_task(settings);
    const TrainingResult result = train(*task, settings, /*others_began=*/!data.empty());
    data = task->data_name();
    outcome.parameters = result.parameters;
    outcome.results.values.push_back(by_accuracy(common, ablation) ? 100 * *result.full.accuracy : result.full.loss);
  }
  return outcome;
}

/// Draws a bar for each variant.
void draw_bars(const Ablation& ablation, const std::vector<Outcome>& outcomes, const std::string& subtitle,
               const std::string& y_label, const std::filesystem::path& path) {
  BarChart chart{.title = ablation.title, .subtitle = subtitle, .y_label = y_label};
  for (const Outcome& outcome : outcomes)
    chart.bars.push_back({outcome.variant, outcome.results.mean(), outcome.results.deviation()});
  write_png(chart, path);
}

/// Draws a line for each kind of dropout against its rate. All lines begin at rate 0, the run without dropout.
void draw_rates(const Ablation& ablation, const std::vector<Outcome>& outcomes, const std::vector<double>& rates,
                const std::string& subtitle, const std::string& y_label, const std::filesystem::path& path) {
  LineChart chart{.title = ablation.title, .subtitle = subtitle, .x_label = "rate of dropout", .y_label = y_label};
  size_t next = 1;
  for (const std::string& kind : dropout_kinds()) {
    Series series{.label = kind, .x = {0}, .y = {outcomes.front().results.mean()}};
    for (const double rate : rates) {
      series.x.push_back(rate);
      series.y.push_back(outcomes[next++].results.mean());
    }
    chart.series.push_back(std::move(series));
  }
  write_png(chart, path);
}

void report(const Settings& common, const Ablation& ablation, const std::vector<double>& rates,
            const std::vector<Outcome>& outcomes, const std::string& data) {
  const std::string y_label = measure(common, ablation);
  Table table({ablation.name, "parameters", "mean " + y_label, "± deviation"});
  for (const Outcome& outcome : outcomes) {
    table.add_row({outcome.variant, fmt::format("{}", outcome.parameters),
                   fmt::format("{:.4f}", outcome.results.mean()),
                   fmt::format("{:.4f}", outcome.results.deviation())});
  }
  const auto count = outcomes.front().results.values.size();
  const std::string what = fmt::format("{}, {}, {} seed{}", data, describe(common), count, count == 1 ? "" : "s");
  const std::filesystem::path picture = common.out / picture_of(ablation);
  if (ablation.name == "dropout") {
    draw_rates(ablation, outcomes, rates, what + ", mean", y_label, picture);
  } else {
    draw_bars(ablation, outcomes, what + ", mean ± standard deviation", y_label, picture);
  }
  fmt::print("\n{}\n{}{}\n\n", what, table.str(), picture.string());
}

void run_ablations(const Settings& common, const std::vector<Ablation>& ablations, const std::vector<double>& rates,
                   int64_t seeds) {
  apply_machine_settings(common);
  catch_interrupts();
  std::string data;
  for (const Ablation& ablation : ablations) {
    std::vector<Outcome> outcomes;
    for (const Variant& variant : ablation.variants) {
      outcomes.push_back(run_variant(common, ablation, variant, seeds, data));
    }
    on_first_rank([&] { report(common, ablation, rates, outcomes, data); });
  }
}

std::vector<Ablation> ablations_of(const std::vector<std::string>& names, const std::vector<double>& rates) {
  std::vector<Ablation> ablations;
  for (const std::string& name : names) {
    ablations.push_back(name == "interaction" ? interaction() : name == "sharing" ? sharing() : dropout(rates));
  }
  return ablations;
}

/// Throws UsageError unless each ablation is named once, and the rates are valid and in rising order. The order
/// matters because lines are drawn through them.
void check_choice(const CLI::App& app, const std::vector<std::string>& names, const std::vector<double>& rates) {
  for (const std::string& name : names) {
    if (std::ranges::count(names, name) > 1) throw UsageError(fmt::format("{} is named twice", name));
  }
  if (app.count("--rates") > 0 && std::ranges::find(names, "dropout") == names.end()) {
    throw UsageError(fmt::format("--rates does not apply to {}", fmt::join(names, " and ")));
  }
  double last = 0;
  for (const double rate : rates) {
    if (!(rate > last && rate <= 0.99)) {
      throw UsageError(fmt::format("--rates {}: must rise, above 0 and up to 0.99", fmt::join(rates, ",")));
    }
    last = rate;
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Ablations: interaction functions and shared parameters (Wu et al. 2021, figures 3 and 4), and dropout (Gerami "
      "et "
      "al. 2024, figure 2).",
      "ablations");
  return run_program(app, [&] {
    join_ranks();
    const std::vector<std::string> tasks{"shakespeare", "mnist", "speakers"};
    std::string task = task_from_flag(argc, argv, tasks);
    Settings settings = settings_from_preset(argc, argv, task, preset_names(task).front());
    if (task == "mnist") settings.epochs = 1;
    if (task == "shakespeare") settings.steps = 500, settings.warmup = 50;
    settings.out = "out/ablations-" + task;
    int64_t seeds = 3;
    std::vector<std::string> names = kNames;
    std::vector<double> rates{0.05, 0.1, 0.2, 0.4};
    add_common_flags(app, settings);
    app.add_option("what", names, "what to vary, separated by commas or spaces")
        ->delimiter(',')
        ->check(CLI::IsMember(kNames));
    app.add_option("--rates", rates, "dropout rates in rising order, separated by commas")->delimiter(',');
    add_task_flag(app, task, tasks, " (for mnist, --patch 1 takes pixels)");
    app.add_option("--seeds", seeds, "runs of each variant, from --seed on")->check(whole_number(1, 1000));
    add_model_flags(app, settings);
    add_training_flags(app, settings);
    add_short_conv_flag(app, settings);
    app.add_option("--out", settings.out, "folder for all results")->check(path());
    app.add_flag("--resume", settings.resume, "go on with what is in --out; give the same flags");
    app.parse(argc, argv);
    settle_training_flags(app, settings);
    refuse_inapplicable_flags(app, settings);
    check_choice(app, names, rates);
    const std::vector<Ablation> ablations = ablations_of(names, rates);
    validate_all(settings, ablations, seeds);
    run_ablations(settings, ablations, rates, seeds);
  });
}
