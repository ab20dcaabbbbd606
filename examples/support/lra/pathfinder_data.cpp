#include "support/lra/pathfinder_data.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "support/lra/images.h"
#include "support/lra/pathfinder.h"
#include "support/plot/image_sheet.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

constexpr int64_t kImageSide = PathfinderImage::kSide;
constexpr int64_t kPathfinderVersion = 1;  // a change of pathfinder_image() raises it
constexpr std::array<int64_t, 3> kPathfinderCounts{160000, 20000, 20000};

}  // namespace

Examples pathfinder_examples(const LraSettings& settings, int64_t count, const ReportMade& report) {
  const PathfinderOptions options{.contour_length = settings.contour_length, .distractors = settings.distractors};
  const auto make = [&](int64_t i, std::span<uint8_t> bytes) {
    const PathfinderImage image = pathfinder_image(options, settings.data_seed, static_cast<uint64_t>(i));
    std::ranges::copy(image.pixels, bytes.begin());
    return image.label;
  };
  try {
    return make_each(count, PathfinderImage::kPixels, make, report);
  } catch (const ValueError& error) {
    throw UsageError(fmt::format("--contour-length {} --distractors {}: {}", options.contour_length,
                                 options.distractors, error.message()));
  }
}

LabelledSequences pathfinder_sequences(const LraSettings& settings, const Examples& examples) {
  const int64_t count = std::ssize(examples.labels), side = kImageSide / settings.downsample;
  const Examples tokens{
      .sequences = {.shape = {count, side * side},
                    .bytes = downsampled(examples.sequences.bytes, kImageSide, kImageSide, settings.downsample)},
      .labels = examples.labels};
  return to_sequences(tokens, Ends::same_length,
                      settings.black_is_padding ? Ids::zero_is_padding : Ids::byte_plus_one);
}

SequenceData load_pathfinder(const Settings& settings) {
  const LraSettings& lra = settings.lra;
  check_downsample(kImageSide, kImageSide, lra.downsample);
  const GeneratedSet set{.generator = "pathfinder",
                         .version = kPathfinderVersion,
                         .seed = lra.data_seed,
                         .options = {{"contour_length", lra.contour_length}, {"distractors", lra.distractors}},
                         .counts = kPathfinderCounts};
  const auto parts = cached(settings, set, [&](const ReportMade& report) {
    return pathfinder_examples(lra, kPathfinderCounts[0] + kPathfinderCounts[1] + kPathfinderCounts[2], report);
  });
  const auto sequences = [&](const Examples& part) { return pathfinder_sequences(lra, part); };
  return {name_of(set), sequences(parts[0]), sequences(parts[1]), sequences(parts[2])};
}

void draw_pathfinder_sheet(const LraSettings& settings, const std::filesystem::path& path) {
  constexpr int64_t kOfLabel = 8, kDrawn = 64;  // almost certainly, eight of these have each label
  const Examples all = pathfinder_examples(settings, kDrawn, [](int64_t) {});
  Tensor images = zeros({2 * kOfLabel, PathfinderImage::kSide, PathfinderImage::kSide});
  const std::span<float> greys = images.mutable_data<float>();
  std::array<int64_t, 2> counts{};
  for (int64_t i = 0; i < kDrawn; ++i) {
    const uint8_t label = all.labels[static_cast<size_t>(i)];
    if (counts[label] == kOfLabel) continue;
    const int64_t place = (1 - label) * kOfLabel + counts[label]++;
    std::transform(all.sequences.bytes.begin() + i * PathfinderImage::kPixels,
                   all.sequences.bytes.begin() + (i + 1) * PathfinderImage::kPixels,
                   greys.begin() + place * PathfinderImage::kPixels, [](uint8_t grey) { return grey / 255.0F; });
  }
  write_png({.title = "Pathfinder: both markers on one snake above, on two below",
             .subtitle = fmt::format("contour length {}, {} distractors to try, seed {}", settings.contour_length,
                                     settings.distractors, settings.data_seed),
             .images = images,
             .columns = kOfLabel},
            path);
}

}  // namespace linnet::examples
