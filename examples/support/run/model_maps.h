#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "support/plot/heat_map.h"
#include "support/settings/settings.h"

namespace linnet::examples {

/// What a model is shown.
struct MapInput {
  std::optional<std::string> prompt = {};  ///< to a text model; otherwise the beginning of its validation text
  std::optional<int64_t> image = {};       ///< to an image model, the number of a test image; otherwise 0
};

/// The attention maps of a trained model on one input.
struct ModelMaps {
  Settings settings = {};                   ///< of its training
  std::string data = {};                    ///< that it was trained on
  std::string training = {};                ///< how, for people
  std::string input = {};                   ///< what it was shown, for people
  std::vector<std::string> tokens = {};     ///< the characters; empty for images, whose tokens are patches
  std::vector<nn::AttentionMap> maps = {};  ///< of a batch of one; as many for each layer

  int64_t maps_per_layer() const { return std::ssize(maps) / settings.layers; }
};

/// Reads the model in `folder`, the --out of a trainer (see RunWeights), and shows it `input`, looking for data where
/// `machine` says, or else where the model's run had them.
/// Throws UsageError for an input that this model does not take, IoError when the folder holds no model or its data
/// is not there, and ValueError for a prompt that it cannot read or a picture cannot show.
ModelMaps read_maps(const std::filesystem::path& folder, const MapInput& input, const Settings& machine);

/// Map `index` of the model for one head: weights as parts of the largest in their row, since a row of a longer text
/// has smaller ones; grey where a token comes later.
HeatMap heat_map_of(const ModelMaps& model, int64_t index, int64_t head);

}  // namespace linnet::examples
