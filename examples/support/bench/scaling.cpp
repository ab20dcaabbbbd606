#include "support/bench/scaling.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>

#include <fmt/format.h>
#include <linnet/linnet.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "support/files.h"
#include "support/format.h"
#include "support/plot/plot.h"
#include "support/settings/program.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

struct Point {
  AttentionCase c;
  Measured measured;
  int64_t sequence_peak_bytes = 0;  ///< peak memory with a batch of one, as `bench attention` measures it

  /// Per sequence, so that lengths with different batch sizes can be compared.
  double forward_ms() const { return measured.forward.median_ms / static_cast<double>(c.batch); }
  double training_ms() const { return measured.forward_backward.median_ms / static_cast<double>(c.batch); }
  double peak_mib() const { return static_cast<double>(sequence_peak_bytes) / (1 << 20); }
};

/// Throws UsageError for an option that none of the mechanisms has, and for values that one of them refuses at some
/// length.
void check_all_options(const ScalingOptions& options, const Settings& settings,
                       const std::vector<std::string>& mechanisms) {
  if (shares(settings, "layers")) {
    throw UsageError(
        "--share layers does not apply to bench scaling, whose layers have weights of their own; leave it out");
  }
  check_options_apply(settings, "--mechanisms", mechanisms);
  for (const std::string& mechanism : mechanisms) {
    Settings own = settings_of(mechanism, settings);
    own.heads = options.heads;
    for (const int64_t head_dim : options.head_dims) {
      own.width = options.heads * head_dim;
      check_options(own, options.least_tokens);
    }
  }
}

/// Measures one mechanism at one head dim, from short to long, until a length would take too long.
std::vector<Point> measure_lengths(const ScalingOptions& options, const Settings& settings, int64_t head_dim) {
  const std::string& mechanism = settings.attention;
  fmt::print(stderr, "measuring {}, D = {}\n", mechanism, head_dim);
  constexpr int64_t kTokens = 4096;  // in a batch of several sequences
  std::vector<Point> points;
  for (int64_t tokens = options.least_tokens; tokens <= options.most_tokens; tokens *= 2) {
    const int64_t batch = std::max<int64_t>(1, kTokens / tokens);
    const double growth = 4;  // at worst, since twice the tokens have four times the pairs
    const double last_ms = points.empty() ? 0 : points.back().training_ms();  // a sequence
    if (last_ms * growth * static_cast<double>(batch) > 1e3 * options.limit_seconds) {
      fmt::print(stderr, "{}, D = {}: {} tokens and more left out, over --limit {} s a step\n", mechanism, head_dim,
                 tokens, options.limit_seconds);
      break;
    }
    const AttentionCase c{.mechanism = mechanism,
                          .causal = options.causal,
                          .options = attention_options(settings),
                          .batch = batch,
                          .heads = options.heads,
                          .tokens = tokens,
                          .head_dim = head_dim,
                          .seed = settings.seed,
                          .device = device_of(settings),
                          .dtype = options.layers > 0 ? model_dtype(settings) : DType::float32};
    constexpr double kSeconds = 0.2;
    const auto measure = [&](const AttentionCase& of, double seconds) {
      return options.layers > 0 ? measure_layers(of, options.layers, seconds) : measure_attention(of, seconds);
    };
    const Measured measured = measure(c, kSeconds);
    // The peak divided by the batch size would be too small: scratch memory exists once per call, not per sequence.
    AttentionCase single = c;
    single.batch = 1;
    points.push_back({c, measured, c.batch == 1 ? measured.peak_bytes : measure(single, 0).peak_bytes});
  }
  return points;
}

using Value = double (Point::*)() const;

/// The exponent p of a curve that grows as N^p, by least squares of the logarithms of its last four points; "–" where
/// it has fewer than three.
std::string growth(const std::vector<Point>& points, Value value) {
  const size_t count = std::min<size_t>(points.size(), 4);
  if (count < 3) return "–";
  std::vector<double> x, y;
  for (const Point& point : std::span(points).last(count)) {
    x.push_back(std::log(static_cast<double>(point.c.tokens)));
    y.push_back(std::log((point.*value)()));
  }
  const double x_mean = std::reduce(x.begin(), x.end()) / static_cast<double>(count);
  const double y_mean = std::reduce(y.begin(), y.end()) / static_cast<double>(count);
  double above = 0, below = 0;
  for (size_t i = 0; i < count; ++i) {
    above += (x[i] - x_mean) * (y[i] - y_mean);
    below += (x[i] - x_mean) * (x[i] - x_mean);
  }
  return fmt::format("N^{:.2f}", above / below);
}

void draw(const ScalingOptions& options, const std::map<std::string, std::vector<Point>>& curves, int64_t head_dim,
          const std::string& what, Value value, const std::string& y_label, const std::string& file) {
  LineChart chart{
      .title = fmt::format("{} against length, D = {}", what, head_dim),
      .subtitle = fmt::format("{}{} {}, one sequence{}, {} threads",
                              options.layers > 0 ? fmt::format("{} layers, ", options.layers) : "attention alone, ",
                              options.heads, options.heads == 1 ? "head" : "heads", options.causal ? ", causal" : "",
                              num_threads()),
      .x_label = "tokens",
      .y_label = y_label,
      .log_x = true,
      .log_y = true};
  for (const auto& [mechanism, points] : curves) {
    Series series{.label = mechanism, .color = mechanism_index(mechanism)};
    for (const Point& point : points) {
      series.x.push_back(static_cast<double>(point.c.tokens));
      series.y.push_back((point.*value)());
    }
    chart.series.push_back(std::move(series));
  }
  write_png(chart, options.out / file);
}

}  // namespace

std::vector<std::string> figure_names() { return {"wu", "fast"}; }

void set_figure(const std::string& figure, ScalingOptions& options, Settings& settings) {
  if (figure == "wu") {  // layers of width 256, with the tokens of table 9 for the news of MIND
    options.layers = 2;
    options.heads = 16;
    options.head_dims = {16};
    settings.own_options = {{"longformer", {{"window", "16"}, {"global_tokens", "16"}}},
                            {"bigbird", {{"block", "8"}, {"random_blocks", "2"}}},
                            {"linformer", {{"linformer_rank", "16"}}},
                            {"poolingformer", {{"window", "256"}, {"window2", "512"}}}};
  } else if (figure == "fast") {
    options.heads = 1;
    options.head_dims = {32};
  }
}

void add_scaling_flags(CLI::App& app, ScalingOptions& options) {
  app.add_option(
         "--figure", options.figure,
         "start from the settings of a paper's figure; other flags change them: wu, Wu et al. 2021, figure 2; "
         "fast, Gerami et al. 2024, figure 3")
      ->check(CLI::IsMember(figure_names()));
  add_mechanism_list(app, "--mechanisms", options.mechanisms);
  app.add_option("--head-dims", options.head_dims, "numbers per head, comma-separated")
      ->delimiter(',')
      ->check(whole_number(1));
  app.add_option("--from", options.least_tokens, "the shortest length")->check(whole_number(1));
  app.add_option("--to", options.most_tokens, "the longest length")->check(whole_number(1, 1'000'000'000));
  app.add_option("--heads", options.heads, "attention heads")->check(whole_number(1));
  app.add_option("--layers", options.layers, "Transformer layers; 0 for an attention alone")
      ->check(whole_number(0, 1000));
  app.add_flag("--causal", options.causal, "each token sees itself and those before it");
  app.add_option("--limit", options.limit_seconds, "skip lengths whose step may take more seconds")
      ->check(number(1e-6, 1e6));
  app.add_option("--out", options.out, "folder for the pictures")->check(path());
}

void run_scaling(const ScalingOptions& options, const BenchOptions& bench) {
  if (options.least_tokens > options.most_tokens) {
    throw UsageError(fmt::format("--from {} is above --to {}", options.least_tokens, options.most_tokens));
  }
  std::vector<std::string> mechanisms = options.mechanisms;
  if (mechanisms.empty()) mechanisms = options.causal ? nn::causal_mechanisms() : nn::attention_mechanisms();
  for (const std::string& mechanism : mechanisms) {
    if (options.causal) require_causal("--mechanisms", mechanism);
  }
  check_all_options(options, bench.settings, mechanisms);
  make_folder(options.out);
  for (const int64_t head_dim : options.head_dims) {
    std::map<std::string, std::vector<Point>> curves;
    Table table({"mechanism", "tokens", "forward ms", "training ms", "peak"});
    // Wu et al. 2021, table 7, beside what was measured
    Table growths({"mechanism", "forward", "training", "memory", "time in its paper"});
    for (const std::string& mechanism : mechanisms) {
      const std::vector<Point>& points = curves[mechanism] =
          measure_lengths(options, settings_of(mechanism, bench.settings), head_dim);
      for (const Point& point : points) {
        if (bench.json) {
          nlohmann::json json = case_json(point.c, point.measured);
          json["layers"] = options.layers;
          print_json(bench, std::move(json));
        }
        table.add_row({mechanism, format_count(point.c.tokens), fmt::format("{:.3f}", point.forward_ms()),
                       fmt::format("{:.3f}", point.training_ms()), format_bytes(point.sequence_peak_bytes)});
      }
      growths.add_row({mechanism, growth(points, &Point::forward_ms), growth(points, &Point::training_ms),
                       growth(points, &Point::peak_mib), nn::find_mechanism(mechanism).complexity});
    }
    if (!bench.json) {
      fmt::print("D = {}, a sequence\n{}\n", head_dim, table.str());
      fmt::print("growth with the tokens N, fitted to the last four lengths of each mechanism\n{}\n", growths.str());
    }
    flush_output();  // measuring the next head dim takes minutes
    draw(options, curves, head_dim, "Time", &Point::training_ms, "ms, forward + backward",
         fmt::format("training-{}.png", head_dim));
    draw(options, curves, head_dim, "Time", &Point::forward_ms, "ms, forward",
         fmt::format("forward-{}.png", head_dim));
    draw(options, curves, head_dim, "Memory", &Point::peak_mib, "MiB, forward + backward",
         fmt::format("memory-{}.png", head_dim));
  }
  fmt::print(stderr, "pictures: {}\n", options.out.string());
}

}  // namespace linnet::examples
