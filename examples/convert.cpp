/// Predicts whether a click on an ad leads to a conversion, from what the user did before (Wu et al. 2021, section
/// 4.6). It prints the paper's table 8 for every mechanism.

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "support/run/compare.h"
#include "support/table.h"
#include "support/users/conversion_task.h"
#include "support/users/published.h"

using namespace linnet::examples;

namespace {

double auc_of(const TrainingResult& result) {
  return result.full.measures.empty() ? 0.5 : result.full.measures.front().second;
}

std::string change(double from, double to) { return fmt::format("{:+.1f} %", 100 * (to / from - 1)); }

/// Prints how AUC, memory and latency differ from softmax attention, as the paper does, and the paper's own figures.
void print_ratios(const std::vector<ComparedRuns>& runs) {
  Table table({"change from softmax attention", "AUC", "peak memory", "latency"});
  const auto softmax = std::ranges::find(runs, Settings{}.attention, &ComparedRuns::name);
  const auto mean = [](const ComparedRuns& compared, const auto& value) { return compared.spread(value).mean(); };
  for (const ComparedRuns& other : runs) {
    if (softmax == runs.end()) break;
    table.add_row({other.name, change(mean(*softmax, auc_of), mean(other, auc_of)),
                   change(mean(*softmax, &TrainingResult::peak_bytes), mean(other, &TrainingResult::peak_bytes)),
                   change(softmax->spread_of_more(0).mean(), other.spread_of_more(0).mean())});
  }
  const PublishedConversion published;
  table.add_row({fmt::format("{}, Wu et al. 2021, table 8", published.model), published.auc, published.memory,
                 published.latency});
  fmt::print("\n{}", table.str());
}

}  // namespace

int main(int argc, char** argv) {
  std::optional<double> best;
  return compare_program(
      argc, argv,
      {.name = "convert",
       .description = "Predicts whether a click on an ad leads to a conversion, by two encoders: words to texts, "
                      "texts to users.",
       .tasks = {"conversion"},
       .more_measures =
           [&](Task& task) {
             auto& conversion = dynamic_cast<ConversionTask&>(task);
             best = conversion.best_auc();
             const ConversionTask::Latency latency = conversion.latency();
             return Measures{{"latency, ms", latency.median}, {"99 %, ms", latency.percentile_99}};
           },
       .finish =
           [&](const std::vector<ComparedRuns>& runs) {
             if (best) fmt::print("\nAUC of the probabilities that drew the labels: {:.4f}\n", *best);
             print_ratios(runs);
           }});
}
