#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "support/plot/heat_map.h"
#include "support/settings/settings.h"

namespace linnet::examples {

/// The input of a model whose attention is drawn.
struct MapInput {
  std::optional<std::string> prompt = {};  ///< for a text model; default: the beginning of its validation text
  std::optional<int64_t> image = {};       ///< for an image model, the index of a test image; default: 0
};

/// The attention maps of a trained model on one input.
struct ModelMaps {
  Settings settings = {};                   ///< of the training run
  std::string data = {};                    ///< name of the data that it was trained on
  std::string training = {};                ///< description of the training
  std::string input = {};                   ///< description of the input
  std::vector<std::string> tokens = {};     ///< the characters; empty for images, whose tokens are patches
  std::vector<nn::AttentionMap> maps = {};  ///< batch size 1; the same number for each layer

  int64_t maps_per_layer() const { return std::ssize(maps) / settings.layers; }
};

/// Reads the model in `folder`, the --out of a trainer (see RunWeights), and computes its attention maps for `input`.
/// Data are read from machine.data, or else from the path of the model's run. Throws UsageError for an input of the
/// wrong kind, IoError if the folder has no model or its data are missing, and ValueError for a prompt that has
/// unknown characters or is too long for a picture.
ModelMaps read_maps(const std::filesystem::path& folder, const MapInput& input, const Settings& machine);

/// Map `index` of the model for one head: the absolute weights, each divided by the largest in its row, because
/// longer rows have smaller weights. A row that sees no token is 0. In causal models, later tokens are grey.
HeatMap heat_map_of(const ModelMaps& model, int64_t index, int64_t head);

}  // namespace linnet::examples
