#pragma once

#include <filesystem>
#include <optional>

#include <linnet/linnet.h>

#include "support/run/checkpoint.h"
#include "support/settings/settings.h"

namespace linnet::examples {

/// A language model and its vocabulary, read from the --out folder of train_text (see RunWeights), in evaluation
/// mode, on the device and with the seed of `machine`. Throws IoError or ValueError if the folder has no
/// model, or one of another task.
struct TrainedTextModel {
  TrainedTextModel(const std::filesystem::path& folder, const Settings& machine);

  Settings settings;
  RunWeights weights;
  nn::Vocabulary vocabulary;
  Generator rng;
  nn::DecoderLM model;
};

/// Whether the folder's config.json describes a GPT-2, as Hugging Face's library writes it.
bool holds_gpt2(const std::filesystem::path& folder);

/// A GPT-2 and its tokenizer, read from config.json, model.safetensors, vocab.json and merges.txt, in evaluation
/// mode, on the device and with the seed of `machine`. Throws IoError or ValueError if a file is missing or damaged,
/// or if the tokenizer is of another model.
struct ReleasedGpt2 {
  ReleasedGpt2(const std::filesystem::path& folder, const Settings& machine);

  nn::BytePairTokenizer tokenizer;
  std::optional<int64_t> eos_token_id;  ///< the end token
  Generator rng;
  nn::DecoderLM model;
};

}  // namespace linnet::examples
