#pragma once

#include <filesystem>

#include <linnet/linnet.h>

#include "support/run/checkpoint.h"
#include "support/settings/settings.h"

namespace linnet::examples {

/// A language model and its vocabulary, read from the --out folder of train_text (see RunWeights), in evaluation
/// mode, on the device and with the seed of `machine`. Throws IoError or ValueError if the folder has none, or
/// another task's.
struct TrainedTextModel {
  TrainedTextModel(const std::filesystem::path& folder, const Settings& machine);

  Settings settings;
  RunWeights weights;
  nn::Vocabulary vocabulary;
  Generator rng;
  nn::DecoderLM model;
};

}  // namespace linnet::examples
