/// Charts of finished runs.

#include "support/report/figures.h"

#include <doctest/doctest.h>

#include "tests/examples/report/written_run.h"
#include "tests/support/files.h"
#include "tests/support/quiet.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::examples::test::settings_for;
using linnet::examples::test::write_run;
using linnet::test::TemporaryFolder;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> labels_of(const LineChart& chart) {
  std::vector<std::string> labels;
  for (const Series& series : chart.series) labels.push_back(series.label);
  return labels;
}

using Labels = std::vector<std::string>;

}  // namespace

TEST_CASE("loss chart: one run shows its training losses, where it has them, and else the name of its mechanism") {
  const std::vector<Metrics> history{{.step = 0, .val_loss = 2}, {.step = 10, .val_loss = 1, .seconds = 3}};
  const std::vector<StepLoss> losses{{1, 2.1}, {2, 2.0}};
  const LossCurve trained{.label = "softmax", .color = 3, .history = history, .losses = losses};
  const LossCurve finished{.label = "performer", .color = 4, .history = history};
  const auto chart = [](const std::vector<LossCurve>& curves, Against against) {
    return loss_chart(curves, against, "title", "what");
  };
  CHECK(labels_of(chart({trained}, Against::steps)) == Labels{"training", "validation"});
  CHECK(chart({trained}, Against::steps).y_label == "loss");
  CHECK(labels_of(chart({trained}, Against::seconds)) == Labels{"softmax"});
  CHECK(labels_of(chart({finished}, Against::steps)) == Labels{"performer"});
  CHECK(chart({finished}, Against::steps).y_label == "validation loss");
  CHECK(labels_of(chart({trained, finished}, Against::steps)) == Labels{"softmax", "performer"});
  const LineChart seconds = chart({finished}, Against::seconds);
  CHECK(seconds.series[0].x == std::vector<double>{0, 3});
  CHECK(seconds.series[0].y == std::vector<double>{2, 1});
  CHECK(seconds.series[0].color == 4);
}

TEST_CASE("figures: a lone run names its mechanism and its seed in each of its charts") {
  const TemporaryFolder folder;
  write_run(folder / "run",
            {.settings = settings_for("pathfinder", "lra-pathfinder-small", "linformer", 7), .data = "images"});
  const Groups groups = groups_in(folder.path(), TaskKind::sequences);
  REQUIRE(groups.size() == 1);
  const auto& [group, rows] = *groups.begin();
  CHECK(labels_of(accuracy_chart(group, rows)) == Labels{"linformer"});
  for (const Against against : {Against::steps, Against::seconds}) {
    const LineChart chart = row_losses_chart(group, rows, against);
    CHECK(labels_of(chart) == Labels{"linformer"});
    CHECK(contains(chart.subtitle, ", seed 7"));
    CHECK(contains(chart.title, "pathfinder: validation loss"));
    CHECK(chart.series[0].y == std::vector<double>{2, 1.5});
  }
}

TEST_CASE("figures: rows of one mechanism, seeds that differ, and names of files that stay") {
  const TemporaryFolder folder;
  const auto run = [&](const std::string& name, Settings settings) {
    write_run(folder / name, {.settings = std::move(settings)});
  };
  const std::string preset = "lra-listops-small";
  Settings few = settings_for("listops", preset, "performer"), of_64 = few, of_128 = few;
  of_64.options["performer_features"] = "64";
  of_128.options["performer_features"] = "128";
  run("softmax", settings_for("listops", preset, "softmax"));
  run("softmax-2", settings_for("listops", preset, "softmax", 2));
  run("64", of_64);
  run("128", of_128);
  const auto charts = [&] {
    const Groups groups = groups_in(folder.path(), TaskKind::sequences);
    REQUIRE(groups.size() == 1);
    const auto& [group, rows] = *groups.begin();
    return std::tuple(row_losses_chart(group, rows, Against::steps), accuracy_chart(group, rows),
                      file_prefix(group, rows));
  };
  const auto [losses, accuracies, prefix] = charts();
  CHECK(contains(losses.subtitle, ", seed 1"));
  for (const LineChart& chart : {losses, accuracies}) {
    REQUIRE(chart.series.size() == 3);
    const Series* before = nullptr;
    for (const Series& series : chart.series) {
      CHECK(series.color == mechanism_index(series.label.substr(0, series.label.find(','))));
      CHECK(series.light == (before != nullptr && before->color == series.color));
      before = &series;
    }
  }
  CHECK(prefix.starts_with("lra-listops-small-"));

  Settings longer = settings_for("listops", preset, "softmax");
  longer.steps = 4000;  // another group
  write_run(folder / "longer", {.settings = longer});
  write_run(folder / "other", {.settings = settings_for("listops", preset, "softmax"), .data = "a (0 bytes)"});
  std::vector<std::string> prefixes;
  for (const auto& [group, rows] : groups_in(folder.path(), TaskKind::sequences)) {
    prefixes.push_back(file_prefix(group, rows));
  }
  std::ranges::sort(prefixes);
  CHECK(std::ranges::unique(prefixes).empty());
  CHECK(prefixes.size() == 3);
  CHECK(std::ranges::count(prefixes, prefix) == 1);

  std::filesystem::remove_all(folder / "longer");
  std::filesystem::remove_all(folder / "other");
  run("fastmax2", settings_for("listops", preset, "fastmax2", 3));
  const auto [mixed, ignored, same] = charts();
  CHECK(same == prefix);
  CHECK(!contains(mixed.subtitle, "seed"));
  CHECK(std::ranges::count(labels_of(mixed), "fastmax2, seed 3") == 1);
  CHECK(std::ranges::count(labels_of(mixed), "softmax, seed 1") == 1);
}
