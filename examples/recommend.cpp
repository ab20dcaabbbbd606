/// Ranks the news that a user will click, on MIND or on generated clicks. It uses an encoder at two levels: from
/// words to news and from news to users (Wu et al. 2021, section 4.1).

#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "support/files.h"
#include "support/run/compare.h"
#include "support/settings/program.h"
#include "support/table.h"
#include "support/users/mind.h"
#include "support/users/published.h"
#include "support/users/recommendation_task.h"

using namespace linnet::examples;

namespace {

/// Prints the metrics of random scores and, for MIND, the published metrics below those of the models.
void print_beside(const std::optional<Measures>& chance, bool is_mind) {
  if (chance) {
    fmt::print("\nchance:");
    for (const auto& [name, value] : *chance) fmt::print("  {} {:.4f}", name, value);
    fmt::print("\n");
  }
  if (!is_mind) return;
  Table table({"Wu et al. 2021, table 5", "AUC", "MRR", "nDCG@5", "nDCG@10"});
  for (const auto& [model, values] : published_recommendations()) {
    std::vector<std::string> cells{model};
    for (const double value : values) cells.push_back(fmt::format("{:.4f}", value / 100));
    table.add_row(cells);
  }
  fmt::print(
      "\n{}(on MIND's test data, with word vectors of GloVe; the table's FIM and PLM-NR are other models, with "
      "weights that were trained before)\n",
      table.str());
}

}  // namespace

int main(int argc, char** argv) {
  std::filesystem::path predictions;
  std::optional<Measures> chance;
  bool is_mind = false;
  return compare_program(
      argc, argv,
      {.name = "recommend",
       .description = "Ranks what users will click, by two encoders: words to news, news to users.",
       .tasks = {"recommendation"},
       .mechanisms = {"fastformer"},
       .add_flags =
           [&](CLI::App& app) {
             app.add_option("--predictions", predictions,
                            "write the ranks of candidates to this file, as MIND's leaderboard takes them: of test/, "
                            "or else of dev/")
                 ->check(path());
           },
       .check =
           [&](const std::vector<Settings>& runs) {
             is_mind = !runs.front().data.empty();
             if (predictions.empty()) return;
             if (runs.size() > 1) {
               throw UsageError(fmt::format(
                   "--predictions takes the ranks of one model, and --attention and --seeds give {}", runs.size()));
             }
             const std::filesystem::path folder = std::filesystem::absolute(predictions).parent_path();
             if (!std::filesystem::is_directory(folder)) {
               throw UsageError(fmt::format("--predictions {}: there is no folder {}; make it", predictions.string(),
                                            folder.string()));
             }
             if (std::filesystem::is_directory(predictions)) {
               throw UsageError(fmt::format("--predictions {} is a folder; name a file in it", predictions.string()));
             }
             if (const std::error_code error = write_error(folder)) {
               throw linnet::IoError(fmt::format("--predictions {}: cannot write to {}: {}; choose another folder",
                                                 predictions.string(), folder.string(), error.message()));
             }
             if (is_mind) load_mind_to_predict(runs.front());  // so that errors come before the training
           },
       .more_measures =
           [&](Task& task) {
             auto& recommendation = dynamic_cast<RecommendationTask&>(task);
             chance = recommendation.chance();
             if (!predictions.empty()) recommendation.write_predictions(predictions);
             return Measures{};
           },
       .finish = [&](const auto&) { print_beside(chance, is_mind); }});
}
