/// Draws which tokens the attentions of trained models look at. It draws all heads of one model, or one head of each
/// of several models, as in figure 4 of Gerami et al. 2024.

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include "support/files.h"
#include "support/run/model_maps.h"
#include "support/run/training.h"
#include "support/settings/program.h"
#include "support/tasks/data_sets.h"

using namespace linnet;
using namespace linnet::examples;

namespace fs = std::filesystem;

namespace {

struct Options {
  std::vector<fs::path> models = {};
  bool figure = false;
  MapInput input = {};
  std::optional<int64_t> layer = {}, head = {};  ///< from 1
  int64_t steps = 500;
};

/// Throws UsageError unless a model of these settings has the layer and the head that the flags name.
void check_place(const Options& options, const Settings& model) {
  const auto check = [&](const char* flag, const std::optional<int64_t>& number, const char* what, int64_t count) {
    if (!number || (*number >= 1 && *number <= count)) return;
    throw UsageError(
        fmt::format("{} {}: {} on {} has {} 1 to {}", flag, *number, model.attention, model.task, what, count));
  };
  check("--layer", options.layer, "layers", model.layers);
  check("--head", options.head, "heads", model.heads);
}

/// "layer 2 α, head 3"
std::string place(const ModelMaps& model, int64_t index, int64_t head) {
  const std::string& name = model.maps[static_cast<size_t>(index)].name;
  const size_t space = name.find(' ');
  return fmt::format("layer {}{}, head {}", index / model.maps_per_layer() + 1,
                     space == std::string::npos ? "" : name.substr(space), head + 1);
}

HeatMapGrid empty_grid() {
  return {.x_label = "token that is attended to",
          .y_label = "token that attends",
          .value_label = "size of the weight, as a part of the largest in its row"};
}

void write(const HeatMapGrid& grid, const fs::path& out, const std::string& name) {
  make_folder(out);
  write_png(grid, out / name);
  fmt::print("picture: {}\n", (out / name).string());
}

/// Draws every head of every layer, or those that the flags choose.
void draw_model(const Options& options, const Settings& machine) {
  const ModelMaps model = read_maps(options.models.front(), options.input, machine);
  check_place(options, model.settings);
  HeatMapGrid grid = empty_grid();
  grid.title = fmt::format("Attention maps of {}", model.settings.attention);
  grid.subtitle = fmt::format("trained on {}, {}; input: {}", model.data, model.training, model.input);
  grid.columns = options.head ? 0 : model.settings.heads;
  for (int64_t index = 0; index < std::ssize(model.maps); ++index) {
    if (options.layer && index / model.maps_per_layer() + 1 != *options.layer) continue;
    for (int64_t head = 0; head < model.settings.heads; ++head) {
      if (options.head && head + 1 != *options.head) continue;
      grid.maps.push_back(heat_map_of(model, index, head));
      grid.maps.back().title = place(model, index, head);
    }
  }
  write(grid, machine.out, "maps.png");
}

/// Trains the models of the figure, one after the other, each into its own folder in --out.
std::vector<fs::path> train_models(const Options& options, const Settings& machine) {
  std::vector<Settings> runs;
  for (const std::string task : {"mnist", "shakespeare"}) {
    for (const std::string attention : {"softmax", "fastmax2"}) {
      Settings& s = runs.emplace_back(preset(task, preset_names(task).front()));
      s.attention = attention;
      s.steps = options.steps;
      s.epochs = 0;
      s.warmup = std::min(s.warmup, s.steps / 10);
      s.eval_every = s.steps;
      s.eval_batches = 4;
      s.seed = machine.seed;
      s.resume = machine.resume;
      s.command = machine.command;
      s.device = machine.device;
      s.precision = machine.precision;
      s.data = machine.data;
      s.out = machine.out / fmt::format("{}-{}", task, attention);
      validate(s);
      check_place(options, s);
      settle_run(s);
    }
  }
  check_any_began(runs, machine);
  catch_interrupts();
  std::vector<fs::path> folders;
  for (const Settings& s : runs) {
    const std::unique_ptr<Task> task = make_task(s);
    fmt::print("{} on {}\n", s.attention, task->data_name());
    train(*task, s, /*others_began=*/!folders.empty());
    folders.push_back(s.out);
  }
  return folders;
}

/// Draws one head of each model: the one that the flags name, or a random one.
void draw_figure(const Options& options, const Settings& machine) {
  const std::vector<fs::path> folders = options.models.empty() ? train_models(options, machine) : options.models;
  HeatMapGrid grid = empty_grid();
  grid.title = "Attention maps (Gerami et al. 2024, figure 4)";
  std::vector<std::string> inputs;
  Generator rng(machine.seed);
  const auto any = [&](int64_t count) { return randint(0, count, {1}, rng).item<int64_t>(); };
  for (const fs::path& folder : folders) {
    const ModelMaps model = read_maps(folder, {}, machine);
    check_place(options, model.settings);
    if (std::ranges::find(inputs, model.input) == inputs.end()) inputs.push_back(model.input);
    const int64_t layer = options.layer ? *options.layer - 1 : any(model.settings.layers);
    const int64_t head = options.head ? *options.head - 1 : any(model.settings.heads);
    const int64_t index = layer * model.maps_per_layer();
    grid.maps.push_back(heat_map_of(model, index, head));
    grid.maps.back().title = fmt::format("({}) {}, {}: {}", static_cast<char>('a' + grid.maps.size() - 1),
                                         model.settings.attention, model.data, place(model, index, head));
  }
  grid.subtitle = fmt::format("one head of each model; input: {}", fmt::join(inputs, ", or "));
  write(grid, machine.out, "figure4.png");
}

void refuse_flags(const CLI::App& app, const Options& options) {
  if (!options.figure && options.models.size() != 1) {
    throw UsageError(options.models.empty() ? "give the folder of a model, or --figure"
                                            : "give one model, or --figure for one head of each");
  }
  const auto refuse = [&](const char* flag, const char* where) {
    if (app.count(flag) > 0) throw UsageError(fmt::format("{} does not apply to {}", flag, where));
  };
  for (const char* flag : {"--steps", "--resume"}) {
    if (!options.figure) refuse(flag, "a model that is trained already");
    if (!options.models.empty()) refuse(flag, "models that are trained already");
  }
  if (options.figure) refuse("--prompt", "--figure, which shows models the beginning of their validation data");
  if (options.figure) refuse("--image", "--figure, which shows models the beginning of their validation data");
  if (app.count("--prompt") > 0) refuse("--data", "--prompt, which is read instead of the validation text");
  if (options.steps < 1) throw UsageError(fmt::format("--steps {}: must be at least 1", options.steps));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Draws which tokens the attentions of a trained model look at.", "attention_maps");
  return run_program(app, [&] {
    Settings machine;
    machine.out = "out/attention-maps";
    machine.command.assign(argv, argv + argc);
    Options options;
    add_common_flags(app, machine);
    app.add_option(
           "models", options.models,
           "the --out folder of a trainer, or the checkpoint of a stopped run; with --figure any number of them")
        ->check(path());
    app.add_option("--prompt", options.input.prompt,
                   "what a text model reads (default: the beginning of its validation text)");
    app.add_option("--image", options.input.image, "what an image model sees: a test image, from 0 (default: 0)")
        ->check(whole_number());
    app.add_option("--layer", options.layer, "draw this layer only, from 1 (default: all, or any with --figure)")
        ->check(whole_number());
    app.add_option("--head", options.head, "draw this head only, from 1 (default: all, or any with --figure)")
        ->check(whole_number());
    app.add_flag(
        "--figure", options.figure,
        "one head of each model: Gerami et al. 2024, figure 4. Without models, trains what that shows: softmax "
        "and fastmax2 on MNIST and on Tiny Shakespeare");
    app.add_option("--steps", options.steps, "the training steps of each")->check(whole_number());
    app.add_option("--data", machine.data,
                   fmt::format("the training data of the models (default: the --data that each was trained "
                               "with, or the first of {} that has it)",
                               data_places()))
        ->check(path());
    app.add_option("--out", machine.out,
                   "folder for maps.png, or figure4.png with --figure and the models that it trains")
        ->check(path());
    app.add_flag("--resume", machine.resume, "go on with the models of --figure in --out; give the same flags");
    app.parse(argc, argv);
    refuse_flags(app, options);
    apply_machine_settings(machine);
    if (options.figure) {
      draw_figure(options, machine);
    } else {
      draw_model(options, machine);
    }
  });
}
