/// The Fastformer paper's ablations on the data at hand: how a global vector meets a token (its figure 3), and which
/// parameters are shared (its figure 4).

#include <cmath>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "support/bar_chart.h"
#include "support/program.h"
#include "support/table.h"
#include "support/training.h"

using namespace linnet::examples;

namespace {

struct Variant {
  std::string name;
  std::function<void(Settings&)> change;
};

struct Ablation {
  std::string name, title;
  std::vector<Variant> variants;
};

const std::vector<Ablation> kAblations{
    {"interaction",
     "Interaction function (Wu et al. 2021, figure 3)",
     {{"product", [](Settings& s) { s.fastformer_interaction = "product"; }},
      {"add", [](Settings& s) { s.fastformer_interaction = "add"; }},
      {"concat", [](Settings& s) { s.fastformer_interaction = "concat"; }}}},
    {"sharing",
     "Parameter sharing (Wu et al. 2021, figure 4)",
     {{"none", [](Settings& s) { s.share = {"none"}; }},
      {"query-value", [](Settings& s) { s.share = {"query-value"}; }},
      {"+ heads", [](Settings& s) { s.share = {"query-value", "heads"}; }},
      {"+ layers", [](Settings& s) { s.share = {"query-value", "layers"}; }},
      {"+ heads, layers", [](Settings& s) { s.share = {"query-value", "heads", "layers"}; }}}}};

/// What the runs of a variant came to, one number a seed: accuracy in percent for images, validation loss for text.
struct Outcome {
  std::string variant;
  int64_t parameters = 0;
  std::vector<double> results;

  double mean() const {
    double sum = 0;
    for (const double result : results) sum += result;
    return sum / static_cast<double>(results.size());
  }
  /// The sample standard deviation; 0 of a single run.
  double deviation() const {
    double squares = 0;
    for (const double result : results) squares += (result - mean()) * (result - mean());
    return results.size() > 1 ? std::sqrt(squares / static_cast<double>(results.size() - 1)) : 0;
  }
};

Settings settings_for(const Settings& common, const Ablation& ablation, const Variant& variant, int64_t seed) {
  Settings s = common;
  variant.change(s);
  s.seed = common.seed + static_cast<uint64_t>(seed);
  s.out = common.out / ablation.name / fmt::format("{}-{}", variant.name, s.seed);
  return s;
}

/// What would fail late must fail before the first of them has trained.
void validate_all(const Settings& common, int64_t seeds) {
  for (const Ablation& ablation : kAblations) {
    for (const Variant& variant : ablation.variants) {
      for (int64_t seed = 0; seed < seeds; ++seed) {
        const Settings settings = settings_for(common, ablation, variant, seed);
        validate(settings);
        check_holds_no_run(settings);
      }
    }
  }
}

Outcome run_variant(const Settings& common, const Ablation& ablation, const Variant& variant, int64_t seeds,
                    std::string& data) {
  Outcome outcome;
  outcome.variant = variant.name;
  for (int64_t seed = 0; seed < seeds; ++seed) {
    const Settings settings = settings_for(common, ablation, variant, seed);
    fmt::print("{}, {}, seed {}\n", ablation.name, variant.name, settings.seed);
    const std::unique_ptr<Task> task = make_task(settings);
    data = task->data_name();
    RunFolder folder(settings, data);
    const TrainingResult result = train(*task, settings, folder);
    outcome.parameters = result.parameters;
    outcome.results.push_back(result.full.accuracy ? 100 * *result.full.accuracy : result.full.loss);
  }
  return outcome;
}

void report(const Settings& common, const Ablation& ablation, const std::vector<Outcome>& outcomes,
            const std::string& data) {
  const bool images = common.task == "mnist";
  const std::string measure = images ? "accuracy, %" : "validation loss";
  Table table({ablation.name, "parameters", "mean " + measure, "± deviation"});
  BarChart chart{
      .title = ablation.title,
      .subtitle = fmt::format("data: {}, {} seeds, mean ± standard deviation", data, outcomes.front().results.size()),
      .y_label = measure};
  for (const Outcome& outcome : outcomes) {
    table.add_row({outcome.variant, fmt::format("{}", outcome.parameters), fmt::format("{:.4f}", outcome.mean()),
                   fmt::format("{:.4f}", outcome.deviation())});
    chart.bars.push_back({outcome.variant, outcome.mean(), outcome.deviation()});
  }
  const std::filesystem::path picture = common.out / (ablation.name + ".png");
  write_png(chart, picture);
  fmt::print("\n{}, preset {}\n{}{}\n\n", data, common.preset, table.str(), picture.string());
}

void run_ablations(const Settings& common, int64_t seeds) {
  apply_machine_settings(common);
  catch_interrupts();
  for (const Ablation& ablation : kAblations) {
    std::vector<Outcome> outcomes;
    std::string data;
    for (const Variant& variant : ablation.variants) {
      outcomes.push_back(run_variant(common, ablation, variant, seeds, data));
    }
    report(common, ablation, outcomes, data);
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The Fastformer paper's figures 3 and 4: interaction functions, and shared parameters.", "ablations");
  return run_program(app, [&] {
    std::string task = flag_value(argc, argv, "--task", "shakespeare");
    if (task != "shakespeare" && task != "mnist") {
      throw UsageError(fmt::format("--task {}: must be shakespeare or mnist", task));
    }
    Settings settings = settings_from_preset(argc, argv, task, task == "mnist" ? "mnist-small" : "nanogpt-cpu");
    settings.attention = "fastformer";
    settings.checkpoint_every = 0;
    settings.epochs = task == "mnist" ? 1 : 0;
    settings.steps = task == "mnist" ? 0 : 500;
    settings.warmup = task == "mnist" ? 0 : 50;
    settings.out = "out/ablations-" + task;
    int64_t seeds = 3;
    add_common_flags(app, settings);
    app.add_option("--task", task, "what to train: shakespeare or mnist (--patch 1 takes pixels)");
    app.add_option("--seeds", seeds, "runs of each variant, from --seed on")->check(CLI::PositiveNumber);
    add_model_flags(app, settings);
    add_training_flags(app, settings);
    app.add_option("--short-conv", settings.short_conv, "taps of a short convolution; 0 for none");
    app.add_option("--out", settings.out, "folder for all results");
    app.parse(argc, argv);
    settle_training_flags(app, settings);
    validate_all(settings, seeds);
    run_ablations(settings, seeds);
  });
}
