#pragma once

#include <filesystem>

#include "support/plot/plot.h"
#include "support/report/runs.h"
#include "support/run/loss_chart.h"

namespace linnet::examples {

/// Accuracy against steps a second, with memory as area (Gerami et al. 2024, figure 5).
LineChart accuracy_chart(const Group& group, const Rows& rows);
/// The validation losses against steps or seconds (Gerami et al. 2024, figure 6), of the first seed of each row.
LineChart row_losses_chart(const Group& group, const Rows& rows, Against against);
/// The prefix of a group's file names: its preset, and a checksum of everything else that defines the group. So the
/// names do not change when other groups are added.
std::string file_prefix(const Group& group, const Rows& rows);

/// Draws these charts of each group into `folder`, and prints their paths. Throws as groups_in.
void draw_figures(const std::filesystem::path& folder, TaskKind kind);

}  // namespace linnet::examples
