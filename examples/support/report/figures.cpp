#include "support/report/figures.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "support/format.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

/// Calls `draw(row, runs, light)` for each row. `light` is true for every row of a mechanism except the first.
template <class Draw>
void for_each_row(const Rows& rows, Draw&& draw) {
  const Row* before = nullptr;
  for (const auto& [row, runs] : rows) {
    draw(row, runs, before != nullptr && before->mechanism == row.mechanism);
    before = &row;
  }
}

uint64_t first_seed(const Runs& runs) { return runs.front().settings.seed; }

}  // namespace

LineChart accuracy_chart(const Group& group, const Rows& rows) {
  double most = 0;
  for (const auto& [row, runs] : rows) most = std::max(most, mean_of(runs, peak_of));
  LineChart chart{.title = fmt::format("{}: accuracy against speed, area in proportion to peak memory (largest {})",
                                       group.task, format_bytes(static_cast<int64_t>(most))),
                  .subtitle = fmt::format("{}, {}", group.data, group.what),
                  .x_label = "training steps a second",
                  .y_label = "test accuracy, %",
                  .log_x = true};
  for_each_row(rows, [&](const Row& row, const Runs& runs, bool light) {
    chart.series.push_back({.label = row.label,
                            .x = {steps_per_second(runs)},
                            .y = {mean_of(runs, accuracy_of)},
                            .color = row.mechanism,
                            .light = light,
                            .areas = {mean_of(runs, peak_of) / most}});
  });
  return chart;
}

LineChart row_losses_chart(const Group& group, const Rows& rows, Against against) {
  const uint64_t seed = first_seed(rows.begin()->second);
  const bool one_seed = std::ranges::all_of(rows, [&](const auto& row) { return first_seed(row.second) == seed; });
  std::vector<LossCurve> curves;
  for_each_row(rows, [&](const Row& row, const Runs& runs, bool light) {
    curves.push_back({.label = one_seed ? row.label : fmt::format("{}, seed {}", row.label, first_seed(runs)),
                      .color = row.mechanism,
                      .light = light,
                      .history = runs.front().history});
  });
  return loss_chart(
      curves, against,
      fmt::format("{}: validation loss {}", group.task, against == Against::steps ? "step by step" : "in equal time"),
      fmt::format("{}, {}{}", group.data, group.what, one_seed ? fmt::format(", seed {}", seed) : ""));
}

std::string file_prefix(const Group& group, const Rows& rows) {
  const std::string text = group.what + '\n' + group.data;
  const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
  return fmt::format("{}-{:08x}", rows.begin()->second.front().settings.preset, sum);
}

void draw_figures(const fs::path& folder, TaskKind kind) {
  for (const auto& [group, rows] : groups_in(folder, kind)) {
    const std::string prefix = (folder / file_prefix(group, rows)).string();
    const std::vector<std::pair<std::string, LineChart>> charts{
        {prefix + "-accuracy.png", accuracy_chart(group, rows)},
        {prefix + "-loss.png", row_losses_chart(group, rows, Against::steps)},
        {prefix + "-loss-seconds.png", row_losses_chart(group, rows, Against::seconds)}};
    for (const auto& [path, chart] : charts) {
      write_png(chart, path);
      fmt::print("{}\n", path);
    }
  }
}

}  // namespace linnet::examples
