#pragma once

#include <filesystem>

#include "support/lra/cache.h"
#include "support/lra/sequences.h"
#include "support/settings/settings.h"

namespace linnet::examples {

/// The first `count` images of pathfinder_image(), for settings.lra's contour length, distractors and data seed, made
/// by all threads. The number of threads changes no byte.
///
/// Throws: UsageError for options that pathfinder_image() does not take.
Examples pathfinder_examples(const LraSettings& settings, int64_t count, const ReportMade& report);

/// The images as sequences of all their pixels, black ones at the end too. A token is the mean of
/// `settings.downsample`² pixels, rounded.
///
/// Throws: UsageError for a `downsample` that does not divide the images.
LabelledSequences pathfinder_sequences(const LraSettings& settings, const Examples& examples);

/// The task `pathfinder`: 160,000, 20,000 and 20,000 images of pathfinder_image(), which are generated once. Their
/// tokens are those of pathfinder_sequences().
///
/// Throws: as pathfinder_examples and pathfinder_sequences, before the images are generated.
SequenceData load_pathfinder(const Settings& settings);

/// Draws the first eight images with the label 1, whose markers lie on one snake, and below them eight with 0.
///
/// Throws: as pathfinder_examples; std::runtime_error if the file cannot be written.
void draw_pathfinder_sheet(const LraSettings& settings, const std::filesystem::path& path);

}  // namespace linnet::examples
