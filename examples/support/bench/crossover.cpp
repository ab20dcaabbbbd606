#include "support/bench/crossover.h"

#include <algorithm>
#include <functional>
#include <optional>

#include <fmt/format.h>
#include <linnet/linnet.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "support/format.h"
#include "support/settings/program.h"
#include "support/table.h"

namespace linnet::examples {
namespace {

/// The search stops when it knows the length to this many tokens, or to a sixteenth of it if that is more.
constexpr int64_t kStep = 16;
constexpr int64_t kFirst = 2 * kStep;  // the first length that is measured

/// The least length at which `holds` is true, by bisection; none if that is above `most`. Assumes that `holds` stays
/// true for longer texts.
std::optional<int64_t> first_length(int64_t most, const std::function<bool(int64_t)>& holds) {
  int64_t below = 0, above = kFirst;
  while (!holds(above)) {
    if (above == most) return {};
    below = above;
    above = std::min(2 * above, most);
  }
  while (above - below > std::max(kStep, above / 16)) {
    const int64_t middle = below + std::max(kStep, (above - below) / 2 / kStep * kStep);
    (holds(middle) ? above : below) = middle;
  }
  return above;
}

/// Whether `a` takes less time than `b`, forward and backward. The two alternate, and their medians are compared.
bool is_faster(const AttentionCase& a, const AttentionCase& b, double seconds) {
  constexpr int kRounds = 3;
  std::vector<double> times_a, times_b;
  for (int round = 0; round < kRounds; ++round) {
    times_a.push_back(measure_attention(a, seconds / kRounds).forward_backward.median_ms);
    times_b.push_back(measure_attention(b, seconds / kRounds).forward_backward.median_ms);
  }
  return median(times_a) < median(times_b);
}

AttentionCase with_form(AttentionCase c, const std::string& form) {
  c.options = options_of(c);
  nn::find_mechanism(c.mechanism).option("fastmax_form")->set(c.options, form);
  return c;
}

AttentionCase with_tokens(AttentionCase c, int64_t tokens) {
  c.tokens = tokens;
  return c;
}

/// The number N of tokens at which both forms take equally many operations. The quadratic form takes N² times those
/// of one token, the factorised form N times.
double in_theory(const AttentionCase& c) {
  const nn::AttentionSize token{.tokens = 1, .head_dim = c.head_dim, .causal = c.causal};
  const auto& operations = nn::find_mechanism(c.mechanism).operations;
  return operations(token, {"fastmax"}) / operations(token, {});
}

struct Crossovers {
  AttentionCase c;
  std::optional<int64_t> committed;  ///< the length in fastmax_form's table
  std::optional<int64_t> quadratic;  ///< from here on the factorised form is faster than the quadratic
  std::optional<int64_t> softmax;    ///< from here on fastmax, in its default form, is faster than softmax
};

Crossovers measure_crossovers(const AttentionCase& c, int64_t most, double seconds) {
  AttentionCase softmax = c;
  softmax.mechanism = "softmax";
  return {
      c,
      first_length(most,
                   [&](int64_t n) {
                     const Tensor q = zeros({1}).to(c.device).expand({c.batch, c.heads, n, c.head_dim});
                     return fastmax_form(q, q, c.mechanism == "fastmax2", c.causal) == FastmaxForm::factorised;
                   }),
      first_length(most,
                   [&](int64_t n) {
                     const AttentionCase at = with_tokens(c, n);
                     return is_faster(with_form(at, "factorised"), with_form(at, "quadratic"), seconds);
                   }),
      first_length(most, [&](int64_t n) { return is_faster(with_tokens(c, n), with_tokens(softmax, n), seconds); })};
}

nlohmann::json length_json(const std::optional<int64_t>& length) {
  return length ? nlohmann::json(*length) : nullptr;
}

nlohmann::json to_json(const Crossovers& found) {
  return {{"mechanism", found.c.mechanism},
          {"heads", found.c.heads},
          {"head_dim", found.c.head_dim},
          {"causal", found.c.causal},
          {"theory", in_theory(found.c)},
          {"committed", length_json(found.committed)},
          {"against_quadratic", length_json(found.quadratic)},
          {"against_softmax", length_json(found.softmax)}};
}

std::string length_text(const std::optional<int64_t>& length) { return length ? format_count(*length) : "–"; }

}  // namespace

void add_crossover_flags(CLI::App& app, CrossoverOptions& options) {
  app.add_option("--mechanisms", options.mechanisms, "the mechanisms, comma-separated")
      ->delimiter(',')
      ->check(CLI::IsMember({"fastmax1", "fastmax2"}));
  app.add_option("--head-dims", options.head_dims, "numbers per head, comma-separated")
      ->delimiter(',')
      ->check(whole_number(1));
  app.add_option("--heads", options.heads, "attention heads")->check(whole_number(1));
  app.add_option("--to", options.most_tokens, "the longest length")->check(whole_number(kFirst, 1'000'000'000));
}

void run_crossover(const CrossoverOptions& options, const BenchOptions& bench) {
  Table table({"mechanism", "D", "causal", "theory", "committed", "against quadratic", "against softmax"});
  for (const std::string& mechanism : options.mechanisms) {
    for (const bool causal : {false, true}) {
      for (const int64_t head_dim : options.head_dims) {
        const AttentionCase c{.mechanism = mechanism,
                              .causal = causal,
                              .heads = options.heads,
                              .head_dim = head_dim,
                              .seed = bench.settings.seed,
                              .device = device_of(bench.settings)};
        fmt::print(stderr, "measuring {}{}, D = {}\n", mechanism, causal ? " causal" : "", head_dim);
        const Crossovers found = measure_crossovers(c, options.most_tokens, bench.seconds);
        if (bench.json) print_json(bench, to_json(found));
        table.add_row({mechanism, std::to_string(head_dim), causal ? "yes" : "no",
                       format_count(static_cast<int64_t>(in_theory(c))), length_text(found.committed),
                       length_text(found.quadratic), length_text(found.softmax)});
      }
    }
  }
  if (!bench.json) fmt::print("{}", table.str());
}

}  // namespace linnet::examples
