/// Times attention mechanisms, layers, training steps, other models, generation and kernels.

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "support/bench/bench_options.h"
#include "support/bench/crossover.h"
#include "support/bench/floor.h"
#include "support/bench/kernel_table.h"
#include "support/bench/model_case.h"
#include "support/bench/scaling.h"
#include "support/files.h"
#include "support/format.h"
#include "support/run/profile_report.h"
#include "support/run/training_step.h"
#include "support/settings/choices.h"
#include "support/settings/inapplicable.h"
#include "support/settings/program.h"
#include "support/table.h"
#include "support/tasks/text_model.h"

using namespace linnet;
using namespace linnet::examples;

namespace {

const std::vector<std::string> kMechanisms = nn::attention_mechanisms();

using NamedTimes = std::vector<std::pair<std::string, Timing>>;

NamedTimes with_floor(NamedTimes times, const std::optional<Timing>& floor) {
  if (floor) times.emplace_back("matrix products alone", *floor);
  return times;
}

void print(const BenchOptions& bench, const std::string& title, const NamedTimes& times, const nlohmann::json& json) {
  if (bench.json) return print_json(bench, json);
  Table table({title, "median ms", "least", "most"});
  for (const auto& [name, t] : times) {
    table.add_row({name, fmt::format("{:.3f}", t.median_ms), fmt::format("{:.3f}", t.least_ms),
                   fmt::format("{:.3f}", t.most_ms)});
  }
  fmt::print("{}", table.str());
}

void print_case(const BenchOptions& bench, const std::string& title, const AttentionCase& c, const Measured& m) {
  const NamedTimes times{{"forward", m.forward}, {"forward + backward", m.forward_backward}};
  print(bench, title, with_floor(times, m.floor), case_json(c, m));
  if (bench.json) return;
  const std::string traffic =
      m.least_bytes > 0 ? fmt::format(", {:.1f} GB/s of least traffic", m.gigabytes_per_second()) : "";
  fmt::print("peak {}, {:.1f} GFLOP/s{}\n", format_bytes(m.peak_bytes), m.gflops(), traffic);
}

/// The flags of `bench step`.
struct StepOptions {
  bool profile = false;
  std::optional<std::filesystem::path> out;  ///< the folder for profile.txt and trace.json
};

struct MeasuredStep {
  BesideFloor times = {};
  int64_t peak_bytes = 0, resident_bytes = 0;  ///< measured before profiling and the floor
  ProfiledSteps profile = {};                  ///< one step or more; the products of the first are the floor
};

MeasuredStep measure_step(Task& task, const BenchOptions& bench, int64_t profiled) {
  const Device device = device_of(bench.settings);
  TrainingStep train(task, bench.settings);
  const Tensor parameter = task.model().parameters()[0];
  int64_t step = 0;
  const std::optional<double> beta1 =
      bench.settings.cycle_momentum ? std::optional(bench.settings.beta1) : std::nullopt;
  const auto do_step = [&] {
    train(step++, bench.settings.lr, beta1);
    wait_for(parameter);
  };
  constexpr int64_t kFirst = ProfiledSteps::kWarmUp / 2;  // these allocate the memory that later steps reuse
  while (step < kFirst) do_step();
  reset_peak_memory(device);
  while (step < ProfiledSteps::kWarmUp) do_step();
  MeasuredStep measured{.peak_bytes = memory_stats(device).peak, .resident_bytes = resident_bytes()};
  while (measured.profile.count() < profiled) measured.profile.add(do_step);
  const bool on_cpu = device == Device::cpu;  // only CPU products have a floor
  measured.times = measure_beside_floor(
      do_step, on_cpu ? products_of(measured.profile.calls_of_one()) : std::vector<MatrixProduct>{},
      5 * bench.seconds);
  return measured;
}

void print_step(const BenchOptions& bench, const Task& task, const MeasuredStep& m, const std::string& profile) {
  const Settings& settings = bench.settings;
  const auto& [step, floor] = m.times;
  const double tokens = static_cast<double>(task.tokens_per_batch() * settings.accumulate);
  const double tokens_per_second = tokens / step.median_ms * 1e3;
  nlohmann::json json{{"preset", settings.preset},
                      {"attention", settings.attention},
                      {"data", task.data_name()},
                      {"ms_per_step", step.median_ms},
                      {"tokens_per_second", tokens_per_second},
                      {"floor_ms", floor ? nlohmann::json(floor->median_ms) : nullptr},
                      {"peak_bytes", m.peak_bytes},
                      {"resident_bytes", m.resident_bytes}};
  if (!profile.empty()) {
    json.update({{"profiled_ms_per_step", m.profile.mean_ms()}, {"profile", profile_json(m.profile)}});
  }
  print(bench, fmt::format("{}, {}, {}", describe_model(settings), settings.attention, task.data_name()),
        with_floor({{"step", step}}, floor), json);
  if (bench.json) return;
  fmt::print("{} tokens/s; {}peak {}, resident {}\n", format_count(static_cast<int64_t>(tokens_per_second)),
             floor ? fmt::format("{:.2f} times the floor; ", step.median_ms / floor->median_ms) : "",
             format_bytes(m.peak_bytes), format_bytes(m.resident_bytes));
  if (!profile.empty()) fmt::print("\n{}", profile);
}

/// Times a training step of a preset, and its matrix products alone.
void bench_step(const BenchOptions& bench, const StepOptions& options) {
  if (options.out) make_folder(*options.out);
  const std::unique_ptr<Task> task = make_random_task(bench.settings);
  const MeasuredStep measured = measure_step(*task, bench, options.profile ? ProfiledSteps::kSteps : 1);
  std::string profile;
  if (options.profile) {
    const std::optional<Timing>& floor = measured.times.floor;
    profile = profile_text(fmt::format("{} on {}", bench.settings.attention, task->data_name()), measured.profile,
                           floor ? floor->median_ms : 0);
  }
  if (options.out) write_profile(*options.out, profile, measured.profile);
  print_step(bench, *task, measured, profile);
}

/// Times a training step of a model without attention.
void bench_model(const BenchOptions& bench, const std::string& name) {
  reset_peak_memory(device_of(bench.settings));
  const Timing step = measure_model(name, bench.settings.seed, device_of(bench.settings), 5 * bench.seconds);
  print(bench, name, {{"step", step}},
        {{"model", name},
         {"ms_per_step", step.median_ms},
         {"peak_bytes", memory_stats(device_of(bench.settings)).peak},
         {"resident_bytes", resident_bytes()}});
}

/// Times the generation of one token after `context` tokens.
void bench_generate(const BenchOptions& bench, int64_t context) {
  const Settings& settings = bench.settings;
  Generator rng(settings.seed);
  constexpr int64_t kVocabulary = 65;
  nn::DecoderLM model(rng, text_model_config(settings, kVocabulary), model_dtype(settings), device_of(settings));
  const NoGrad no_grad;
  model.eval();
  nn::DecoderState state = model.start();
  const Tensor id = zeros({1}, DType::int64).to(model.device());
  for (int64_t i = 0; i < context; ++i) wait_for(model.step(state, id));
  constexpr int kTokens = 50;
  std::vector<double> times;
  for (int i = 0; i < kTokens; ++i) {
    const Clock::time_point begin = Clock::now();
    wait_for(model.step(state, id));
    times.push_back(milliseconds_since(begin));
  }
  const Timing timing = summary(times);
  print(bench, fmt::format("{} after {} tokens", settings.attention, context), {{"token", timing}},
        {{"attention", settings.attention},
         {"positions", settings.positions},
         {"context", context},
         {"ms_per_token", timing.median_ms},
         {"resident_bytes", resident_bytes()}});
}

void add_shape_flags(CLI::App& app, AttentionCase& c) {
  app.add_flag("--causal", c.causal, "each token sees itself and those before it");
  app.add_option("--batch", c.batch, "sequences")->check(whole_number(1));
  app.add_option("--heads", c.heads, "attention heads")->check(whole_number(1));
  app.add_option("--tokens", c.tokens, "in each sequence")->check(whole_number(1));
}

/// The case `c` with the seed, the device and the mechanism's options from the program's flags.
AttentionCase complete(AttentionCase c, Settings settings) {
  c.seed = settings.seed;
  c.device = device_of(settings);
  settings.attention = c.mechanism;
  settings.attention_dropout = c.dropout;
  settings.heads = c.heads;
  settings.width = c.heads * c.head_dim;
  if (shares(settings, "layers")) {
    throw UsageError(
        "--share layers does not apply to bench attention and layer, which time one layer; leave it out");
  }
  check_options(settings, c.tokens);
  c.options = attention_options(settings);
  return c;
}

/// Throws UsageError if --seconds is given to a subcommand that does not measure for a set time.
void refuse_seconds(const CLI::App& command) {
  if (command.get_parent()->count("--seconds") == 0) return;
  throw UsageError(fmt::format("--seconds does not apply to {}; leave it out", command.get_name()));
}

/// Throws UsageError for --precision bfloat16 of a subcommand whose inputs it would leave in float32.
void refuse_bfloat16(const Settings& settings, std::string_view subcommand, std::string_view remedy) {
  if (settings.precision != "bfloat16") return;
  throw UsageError(fmt::format("--precision bfloat16 does not apply to {}; {}", subcommand, remedy));
}

// Each of these adds a subcommand with its flags, and a callback that CLI11 runs at the end of parsing.

void add_attention(CLI::App& app, BenchOptions& bench) {
  CLI::App& command = *app.add_subcommand("attention", "a mechanism alone, on queries, keys and values");
  const auto flags = std::make_shared<AttentionCase>();
  const auto dtype = std::make_shared<std::string>(name_of(flags->dtype));
  command.add_option("--attention,--mechanism", flags->mechanism, "the mechanism")->check(CLI::IsMember(kMechanisms));
  command.add_option("--attention-dropout,--dropout", flags->dropout, "rate")->check(number(0, 0.99));
  command.add_option("--head-dim", flags->head_dim, "numbers per head")->check(whole_number(1));
  command.add_option("--dtype", *dtype, "of queries, keys and values; bfloat16 needs --device cuda")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  add_shape_flags(command, *flags);
  add_mechanism_flags(command, bench.settings);
  command.callback([=, &bench] {
    refuse_bfloat16(bench.settings, "attention", "use tf32, or --dtype bfloat16");
    AttentionCase c = complete(*flags, bench.settings);
    if (*dtype == "bfloat16") c.dtype = DType::bfloat16;
    if (c.dtype == DType::bfloat16 && c.device == Device::cpu) {
      throw UsageError("--dtype bfloat16 does not apply to --device cpu, which has float32; use --device cuda");
    }
    print_case(bench, fmt::format("{} attention", c.mechanism), c, measure_attention(c, bench.seconds));
  });
}

void add_layer(CLI::App& app, BenchOptions& bench) {
  CLI::App& command = *app.add_subcommand("layer", "an attention layer with its linear maps");
  const auto flags = std::make_shared<AttentionCase>(AttentionCase{.heads = 16, .tokens = 32768});
  const auto width = std::make_shared<int64_t>(256);
  command.add_option("--attention,--layer", flags->mechanism, "the mechanism")->check(CLI::IsMember(kMechanisms));
  command.add_option("--width", *width, "channels, a multiple of the heads")->check(whole_number(1));
  add_shape_flags(command, *flags);
  add_mechanism_flags(command, bench.settings);
  command.callback([=, &bench] {
    if (*width % flags->heads != 0) {
      throw UsageError(fmt::format("--width {} is not a multiple of --heads {}", *width, flags->heads));
    }
    flags->head_dim = *width / flags->heads;
    AttentionCase c = complete(*flags, bench.settings);
    c.dtype = model_dtype(bench.settings);
    print_case(bench, fmt::format("{} layer", c.mechanism), c, measure_layer(c, bench.seconds));
  });
}

void add_step(CLI::App& app, BenchOptions& bench) {
  CLI::App& command = *app.add_subcommand("step", "a training step of a preset, beside its matrix products alone");
  const auto options = std::make_shared<StepOptions>();
  command.add_flag("--profile", options->profile, "also time each op's kernels, in ten steps");
  command.add_option("--out", options->out, "folder for profile.txt and trace.json, with --profile")->check(path());
  add_attention_flags(command, bench.settings);
  add_model_flags(command, bench.settings);
  command.add_option("--preset", bench.settings.preset, "the preset to start from")
      ->check(CLI::IsMember(preset_names()));
  command.add_option("--batch", bench.settings.batch, "examples a step")->check(whole_number());
  const TaskKind kind = kind_of(bench.settings.task);
  if (kind == TaskKind::sequences || kind == TaskKind::labelled_texts) {
    command.add_option("--context", bench.settings.context, "tokens of a sequence, all of them random")
        ->check(whole_number(1));
  } else {
    add_data_flags(command, bench.settings);
  }
  command.callback([=, &command, &bench] {
    if (options->out && !options->profile) {
      throw UsageError("--out does not apply to step without --profile, which is what writes files; give both");
    }
    drop_preset_options(command, bench.settings);
    refuse_inapplicable_flags(command, bench.settings);
    validate(bench.settings);
    bench_step(bench, *options);
  });
}

void add_model(CLI::App& app, const BenchOptions& bench) {
  CLI::App& command = *app.add_subcommand("model", "a training step of a model without attention");
  const auto name = std::make_shared<std::string>("lenet");
  command.add_option("--model", *name, "the model, on random inputs")->check(CLI::IsMember(model_names()));
  command.callback([=, &bench] {
    refuse_bfloat16(bench.settings, "model", "use tf32");
    bench_model(bench, *name);
  });
}

void add_generate(CLI::App& app, BenchOptions& bench) {
  CLI::App& command = *app.add_subcommand("generate", "the generation of one more token");
  const auto positions = std::make_shared<std::string>("none");
  const auto context = std::make_shared<int64_t>(1000);
  add_attention_flags(command, bench.settings);
  command.add_option("--positions", *positions, "how positions are encoded")
      ->check(CLI::IsMember({"none", "sinusoidal", "rotary"}));
  command.add_option("--context", *context, "tokens before it")->check(whole_number(0, 10'000'000));
  command.callback([=, &command, &bench] {
    refuse_seconds(command);
    const auto refuse = [&](const char* flag, const char* why) {
      if (command.count(flag) == 0) return;
      throw UsageError(fmt::format("{} does not apply to generate, which {}; leave it out", flag, why));
    };
    refuse("--attention-dropout", "drops nothing");
    refuse("--fastmax-form", "takes one token at a time, in one form");
    bench.settings.positions = *positions;
    validate(bench.settings);
    if (!nn::find_mechanism(bench.settings.attention).step) {
      throw UsageError(fmt::format("--attention {} has no step form, which generate times; choose another mechanism",
                                   bench.settings.attention));
    }
    bench_generate(bench, *context);
  });
}

void add_kernels(CLI::App& app, const BenchOptions& bench) {
  CLI::App& command = *app.add_subcommand("kernels", "every main kernel, compared with its limit");
  const auto flags = std::make_shared<KernelOptions>();
  add_shape_flags(command, flags->at);
  add_kernel_flags(command, *flags);
  command.callback([=, &bench] { run_kernel_table(*flags, bench); });
}

void add_scaling(CLI::App& app, BenchOptions& bench, const std::string& figure) {
  CLI::App& command = *app.add_subcommand("scaling", "time and memory against the length, for every mechanism");
  const auto flags = std::make_shared<ScalingOptions>();
  set_figure(figure, *flags, bench.settings);
  add_scaling_flags(command, *flags);
  add_mechanism_flags(command, bench.settings);
  command.callback([=, &command, &bench] {
    refuse_seconds(command);
    if (flags->layers == 0) refuse_bfloat16(bench.settings, "scaling", "use tf32, or --layers for whole layers");
    run_scaling(*flags, bench);
  });
}

void add_crossover(CLI::App& app, const BenchOptions& bench) {
  CLI::App& command =
      *app.add_subcommand("crossover", "the number of tokens from which fastmax's factorised form is faster");
  const auto flags = std::make_shared<CrossoverOptions>();
  add_crossover_flags(command, *flags);
  command.callback([=, &bench] {
    refuse_bfloat16(bench.settings, "crossover", "use tf32");
    run_crossover(*flags, bench);
  });
}

/// The settings of the preset that the command line names, which may belong to either task.
Settings starting_settings(int argc, char** argv) {
  const std::string preset = flag_value(argc, argv, "--preset", "nanogpt-cpu");
  for (const std::string& task : task_names()) {
    const std::vector<std::string> names = preset_names(task);
    if (std::ranges::find(names, preset) != names.end()) return settings_from_preset(argc, argv, task, preset);
  }
  throw UsageError(fmt::format("--preset {}: the presets are {}", preset, fmt::join(preset_names(), ", ")));
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Times attention mechanisms, layers, training steps, other models, generation and kernels: medians after a "
      "warm-up.",
      "bench");
  return run_program(app, [&] {
    BenchOptions bench{.settings = starting_settings(argc, argv)};
    add_common_flags(app, bench.settings);
    app.require_subcommand(0, 1);  // 0, so that CLI11 names a wrong one; a missing one is refused below
    app.fallthrough();
    app.add_flag("--json", bench.json, "one JSON object on one line");
    app.add_option("--seconds", bench.seconds, "about how long to measure for each figure")
        ->check(number(1e-6, 3600));
    // CLI11 calls this before the subcommand's callback.
    app.parse_complete_callback([&] { apply_machine_settings(bench.settings); });
    add_attention(app, bench);
    add_layer(app, bench);
    add_step(app, bench);
    add_model(app, bench);
    add_generate(app, bench);
    add_kernels(app, bench);
    add_scaling(app, bench, flag_value(argc, argv, "--figure", ""));
    add_crossover(app, bench);
    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError::Subcommand(1);
  });
}
