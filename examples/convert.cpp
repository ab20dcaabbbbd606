/// Conversion of ads (Wu et al. 2021, section 4.6): whether a click on an ad leads to a conversion, by what the user
/// did before. It prints the paper's table 8 for every mechanism.

#include <optional>

#include <fmt/format.h>

#include "support/run/compare.h"
#include "support/table.h"
#include "support/users/conversion_task.h"
#include "support/users/published.h"

using namespace linnet::examples;

namespace {

using Runs = std::vector<std::pair<std::string, const TrainingResult*>>;

double auc_of(const TrainingResult& result) {
  return result.full.measures.empty() ? 0.5 : result.full.measures.front().second;
}

std::string change(double from, double to) { return fmt::format("{:+.1f} %", 100 * (to / from - 1)); }

/// Prints AUC, memory and latency as ratios to those of softmax attention, as the paper does, beside its own.
void print_ratios(const Runs& runs, const std::vector<double>& latencies) {
  Table table({"change from softmax attention", "AUC", "peak memory", "latency"});
  for (size_t base = 0; base < runs.size(); ++base) {
    if (runs[base].first != Settings{}.attention) continue;
    for (size_t i = 0; i < runs.size(); ++i) {
      const TrainingResult &softmax = *runs[base].second, &other = *runs[i].second;
      table.add_row({runs[i].first, change(auc_of(softmax), auc_of(other)),
                     change(static_cast<double>(softmax.peak_bytes), static_cast<double>(other.peak_bytes)),
                     change(latencies[base], latencies[i])});
    }
  }
  const PublishedConversion published;
  table.add_row({fmt::format("{}, Wu et al. 2021, table 8", published.model), published.auc, published.memory,
                 published.latency});
  fmt::print("\n{}", table.str());
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<double> best;
  std::vector<double> latencies;
  return compare_program(
      argc, argv,
      {.name = "convert",
       .description = "Predicts whether a click on an ad leads to a conversion, by two encoders: words to texts, "
                      "texts to users.",
       .tasks = {"conversion"},
       .more_cells =
           [&](Task& task, const TrainingResult&) {
             auto& conversion = dynamic_cast<ConversionTask&>(task);
             best = conversion.best_auc();
             const ConversionTask::Latency latency = conversion.latency();
             latencies.push_back(latency.median);
             return std::vector<std::pair<std::string, std::string>>{
                 {"latency", fmt::format("{:.2f} ms", latency.median)},
                 {"99 %", fmt::format("{:.2f} ms", latency.percentile_99)}};
           },
       .finish =
           [&](const Runs& runs) {
             if (best) fmt::print("\nAUC of the probabilities that drew the labels: {:.4f}\n", *best);
             print_ratios(runs, latencies);
           }});
}
