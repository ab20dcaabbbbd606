#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include <linnet/linnet.h>

#include "support/run/checkpoint.h"
#include "support/settings/settings.h"

namespace linnet::examples {

nn::DecoderConfig text_model_config(const Settings& settings, int64_t vocabulary);

/// A language model and its vocabulary as train_text left them in its --out folder (see RunWeights), in evaluation,
/// on the device and with the seed of `machine`. Throws IoError or ValueError when there is none, or one of another
/// task.
struct TrainedTextModel {
  TrainedTextModel(const std::filesystem::path& folder, const Settings& machine);

  Settings settings;
  RunWeights weights;
  nn::Vocabulary vocabulary;
  Generator rng;
  nn::DecoderLM model;
};

struct SampleOptions {
  std::string prompt = {};
  int64_t tokens = 500;
  double temperature = 1;
  int64_t top_k = 0;  ///< 0: all characters
};

/// Where a text begins when nobody says: a new line, or the first character of a vocabulary that has none.
std::string default_prompt(const nn::Vocabulary& vocabulary);

/// Text that goes on from the prompt, one character at a time through the model's step form: `write` gets the prompt,
/// and then each character as it is made. A model with learned positions forgets the older half of the text each time
/// that they end. Throws ValueError for a prompt that is empty or has characters that the vocabulary lacks.
void generate(nn::DecoderLM& model, const nn::Vocabulary& vocabulary, const SampleOptions& options, Generator& rng,
              const std::function<void(const std::string&)>& write);

/// A vocabulary as the metadata of a model file holds it: "vocabulary" are its characters' codes, with spaces
/// between, and "characters" says which codes these are.
std::map<std::string, std::string> vocabulary_metadata(const nn::Vocabulary& vocabulary);
/// The vocabulary that such metadata, of the file `path`, hold. Throws IoError when they hold none.
nn::Vocabulary vocabulary_of(const std::map<std::string, std::string>& metadata, const std::filesystem::path& path);

}  // namespace linnet::examples
