/// Times attention mechanisms, layers, training steps, generation and kernels.

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/bench_case.h"
#include "support/choices.h"
#include "support/crossover.h"
#include "support/floor.h"
#include "support/format.h"
#include "support/kernel_table.h"
#include "support/plot.h"
#include "support/profile_report.h"
#include "support/program.h"
#include "support/scaling.h"
#include "support/table.h"
#include "support/text_model.h"
#include "support/training_step.h"

using namespace linnet;
using namespace linnet::examples;

namespace {

const std::vector<std::string> kMechanisms = nn::attention_mechanisms();

/// How long each figure is measured, and how it is printed.
struct Output {
  bool json = false;
  std::string precision = "float32";  ///< which every figure is of
  double seconds = 1;
};

void print(const Output& output, const std::string& title, const std::vector<std::pair<std::string, Timing>>& times,
           const nlohmann::json& json) {
  if (output.json) {
    fmt::print("{}\n", json.dump());
    return;
  }
  Table table({title, "median ms", "least", "most"});
  for (const auto& [name, t] : times) {
    table.add_row({name, fmt::format("{:.3f}", t.median_ms), fmt::format("{:.3f}", t.least_ms),
                   fmt::format("{:.3f}", t.most_ms)});
  }
  fmt::print("{}", table.str());
}

void print_case(const Output& output, const std::string& title, const AttentionCase& c, const Measured& m) {
  nlohmann::json json = to_json(m);
  json.update({{"mechanism", c.mechanism},
               {"causal", c.causal},
               {"batch", c.batch},
               {"heads", c.heads},
               {"tokens", c.tokens},
               {"head_dim", c.head_dim},
               {"device", c.device == Device::cpu ? "cpu" : "cuda"},
               {"dtype", name_of(c.dtype)},
               {"precision", output.precision},
               {"threads", num_threads()}});
  print(output, title, {{"forward", m.forward}, {"forward + backward", m.forward_backward}}, json);
  if (output.json) return;
  fmt::print("peak {}, {:.1f} GFLOP/s{}\n", format_bytes(m.peak_bytes), m.gflops(),
             m.floor_ms > 0 ? fmt::format(", matrix products alone {:.3f} ms", m.floor_ms) : "");
}

/// A training step of a preset: milliseconds, and those of its matrix products alone.
void bench_step(const Output& output, const Settings& settings, bool with_profile) {
  const std::unique_ptr<Task> task = make_task(settings);
  const Device device = device_of(settings);
  TrainingStep train(*task, settings);
  const Tensor parameter = task->model().parameters()[0];
  int64_t step = 0;
  const auto do_step = [&] {
    train(step++, settings.lr);
    wait_for(parameter);
  };
  constexpr int kWarmUp = 10;
  for (int i = 0; i < kWarmUp; ++i) do_step();
  reset_peak_memory(device);
  const Timing timing = measure(do_step, 5 * output.seconds);
  const int64_t peak = memory_stats(device).peak, resident = resident_bytes();

  std::vector<KernelCall> calls;
  {
    const Profile profile;
    do_step();
    calls = profile.calls();
  }
  const bool on_cpu = device == Device::cpu;
  const double floor = on_cpu ? floor_ms(products_of(calls)) : 0;  // of the CPU's products
  const double tokens = static_cast<double>(task->tokens_per_batch() * settings.accumulate);
  const nlohmann::json json{{"preset", settings.preset},
                            {"attention", settings.attention},
                            {"data", task->data_name()},
                            {"threads", num_threads()},
                            {"ms_per_step", timing.median_ms},
                            {"tokens_per_second", tokens / timing.median_ms * 1e3},
                            {"device", settings.device},
                            {"precision", settings.precision},
                            {"floor_ms", on_cpu ? nlohmann::json(floor) : nullptr},
                            {"peak_bytes", peak},
                            {"resident_bytes", resident}};
  print(output, fmt::format("{}, {}, {}", settings.preset, settings.attention, task->data_name()), {{"step", timing}},
        json);
  if (output.json) return;
  fmt::print("{} tokens/s; {}peak {}, resident {}\n",
             format_count(static_cast<int64_t>(tokens / timing.median_ms * 1e3)),
             on_cpu ? fmt::format("matrix products alone {:.3f} ms, so {:.2f} times the floor; ", floor,
                                  timing.median_ms / floor)
                    : "",
             format_bytes(peak), format_bytes(resident));
  if (with_profile) fmt::print("\n{}", profile_table(calls, 1, timing.median_ms, floor));
}

/// One token of a text that is `context` tokens long already.
void bench_generate(const Output& output, const Settings& settings, int64_t context) {
  Generator rng(settings.seed);
  constexpr int64_t kVocabulary = 65;
  nn::DecoderLM model(rng, text_model_config(settings, kVocabulary), DType::float32, device_of(settings));
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
  print(output, fmt::format("{} after {} tokens", settings.attention, context), {{"token", timing}},
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

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times attention mechanisms, layers, training steps, generation and kernels: medians after a warm-up.",
               "bench");
  return run_program(app, [&] {
    const std::string preset = flag_value(argc, argv, "--preset", "nanogpt-cpu");
    if (preset != "nanogpt-cpu" && preset != "nanogpt-gpu" && preset != "mnist-small") {
      throw UsageError(fmt::format("--preset {}: the presets are nanogpt-cpu, nanogpt-gpu and mnist-small", preset));
    }
    Settings settings =
        settings_from_preset(argc, argv, preset == "mnist-small" ? "mnist" : "shakespeare", "nanogpt-cpu");
    Output output;
    add_common_flags(app, settings);
    app.require_subcommand(0, 1);  // so that a wrong one is named; none at all is refused below
    app.fallthrough();
    app.add_flag("--json", output.json, "one JSON object on one line");
    app.add_option("--seconds", output.seconds, "to measure each figure for, about")->check(number(1e-6, 3600));

    AttentionCase c;
    CLI::App& attention = *app.add_subcommand("attention", "a mechanism alone, on queries, keys and values");
    attention.add_option("--mechanism", c.mechanism, "the mechanism")->check(CLI::IsMember(kMechanisms));
    attention.add_option("--form", c.form, "of fastmax")->check(CLI::IsMember(words(kForms)));
    attention.add_option("--dropout", c.dropout, "rate")->check(number(0, 0.99));
    attention.add_option("--head-dim", c.head_dim, "numbers per head")->check(whole_number(1));
    std::string dtype = name_of(c.dtype);
    attention.add_option("--dtype", dtype, "of queries, keys and values; bfloat16 needs --device cuda")
        ->check(CLI::IsMember({"float32", "bfloat16"}));
    add_shape_flags(attention, c);

    AttentionCase l{.heads = 16, .tokens = 32768};
    int64_t width = 256;
    CLI::App& layer = *app.add_subcommand("layer", "an attention layer with its linear maps");
    layer.add_option("--layer", l.mechanism, "the mechanism")->check(CLI::IsMember(kMechanisms));
    layer.add_option("--width", width, "channels, a multiple of the heads")->check(whole_number(1));
    add_shape_flags(layer, l);

    bool with_profile = false;
    CLI::App& step = *app.add_subcommand("step", "a training step of a preset, beside its matrix products alone");
    step.add_flag("--profile", with_profile, "the time of each kernel too");
    add_attention_flags(step, settings);
    add_model_flags(step, settings);
    step.add_option("--preset", settings.preset, "whose settings to start from");
    step.add_option("--batch", settings.batch, "examples a step")->check(whole_number());
    step.add_option("--data", settings.data, "folder with the data (default: $LINNET_DATA, then data/)");

    int64_t context = 1000;
    CLI::App& generation = *app.add_subcommand("generate", "one more token of a text");
    std::string positions = "none";
    add_attention_flags(generation, settings);
    generation.add_option("--positions", positions, "how tokens know their place")
        ->check(CLI::IsMember({"none", "sinusoidal", "rotary"}));
    generation.add_option("--context", context, "tokens before it")->check(whole_number(0, 10'000'000));

    KernelOptions kernels;
    CLI::App& each = *app.add_subcommand("kernels", "every main kernel beside what limits it");
    add_shape_flags(each, kernels.at);
    add_kernel_flags(each, kernels);

    ScalingOptions scaling;
    CLI::App& curves = *app.add_subcommand("scaling", "time and memory against the length, for every mechanism");
    add_scaling_flags(curves, scaling);

    CrossoverOptions crossover;
    CLI::App& lengths =
        *app.add_subcommand("crossover", "from how many tokens on fastmax's factorised form is the faster one");
    add_crossover_flags(lengths, crossover);

    app.parse(argc, argv);
    if (app.get_subcommands().empty()) throw CLI::RequiredError::Subcommand(1);
    for (const CLI::App* fixed : {&generation, &curves}) {
      if (fixed->parsed() && app.count("--seconds") > 0) {
        throw UsageError(fmt::format("--seconds does not apply to {}; leave it out", fixed->get_name()));
      }
    }
    if (with_profile && output.json) {
      throw UsageError("--profile does not apply to --json, which has no table; leave one of them out");
    }
    apply_machine_settings(settings);
    output.precision = settings.precision;
    c.seed = l.seed = kernels.at.seed = scaling.seed = crossover.seed = settings.seed;
    c.device = l.device = kernels.at.device = scaling.device = crossover.device = device_of(settings);
    if (attention.parsed()) {
      if (attention.count("--form") > 0 && !c.mechanism.starts_with("fastmax")) {
        throw UsageError(fmt::format("--form does not apply to --mechanism {}", c.mechanism));
      }
      if (c.form == "quadratic" && c.dropout > 0) {
        throw UsageError(fmt::format(
            "--dropout {} does not apply to --form quadratic, which has no features to drop; use another --form",
            c.dropout));
      }
      if (dtype == "bfloat16") c.dtype = DType::bfloat16;
      if (c.dtype == DType::bfloat16 && c.device == Device::cpu) {
        throw UsageError("--dtype bfloat16 does not apply to --device cpu, which has float32; use --device cuda");
      }
      print_case(output, fmt::format("{} attention", c.mechanism), c, measure_attention(c, output.seconds));
    } else if (layer.parsed()) {
      if (width % l.heads != 0)
        throw UsageError(fmt::format("--width {} is not a multiple of --heads {}", width, l.heads));
      l.head_dim = width / l.heads;
      print_case(output, fmt::format("{} layer", l.mechanism), l, measure_layer(l, output.seconds));
    } else if (step.parsed()) {
      validate(settings);
      bench_step(output, settings, with_profile);
    } else if (generation.parsed()) {
      if (generation.count("--attention-dropout") > 0) {
        throw UsageError("--attention-dropout does not apply to generate, which drops nothing; leave it out");
      }
      settings.positions = positions;
      validate(settings);
      bench_generate(output, settings, context);
    } else if (each.parsed()) {
      run_kernel_table(kernels, output.precision, output.seconds, output.json);
    } else if (lengths.parsed()) {
      run_crossover(crossover, output.seconds, output.json);
    } else {
      run_scaling(scaling, output.json);
    }
  });
}
