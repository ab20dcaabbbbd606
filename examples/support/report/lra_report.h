#pragma once

#include <filesystem>

/// What `lra --table` and `lra --figures` make of finished runs.

namespace linnet::examples {

/// Prints the results of all finished runs of the Long Range Arena in `folder` and its subfolders: a table for each
/// preset and data set, with the mean of the seeds, and the published tables with a row for each of our mechanisms.
/// Throws IoError if there is no such run.
void print_table(const std::filesystem::path& folder);

/// Draws, for each preset and data set, accuracy against steps a second with memory as area (Gerami et al. 2024,
/// figure 5), and the loss against steps and against seconds (figure 6), into `folder`. Throws as print_table.
void draw_figures(const std::filesystem::path& folder);

}  // namespace linnet::examples
