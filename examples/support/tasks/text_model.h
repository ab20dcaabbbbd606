#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include <linnet/linnet.h>

#include "support/settings/settings.h"

namespace linnet::examples {

/// The config of a language model.
nn::DecoderConfig text_model_config(const Settings& settings, int64_t vocabulary);

struct SampleOptions {
  std::string prompt = {};
  int64_t tokens = 500;
  double temperature = 1;
  int64_t top_k = 0;                         ///< 0: all tokens
  double top_p = 1;                          ///< 1: all tokens
  std::optional<int64_t> eos_token_id = {};  ///< ends the text, and is not written
};

/// The prompt when none is given: a newline, or the first character of a vocabulary that has none.
std::string default_prompt(const nn::Vocabulary& vocabulary);

/// Generates text after the prompt, one token at a time, as nn::generate does. `write` gets the prompt, then the text
/// of each token when it is made. Throws ValueError for a prompt that is empty or has characters that the vocabulary
/// lacks.
void generate(nn::DecoderLM& model, const nn::Tokenizer& vocabulary, const SampleOptions& options, Generator& rng,
              const std::function<void(const std::string&)>& write);

/// A vocabulary as metadata of a model file: "vocabulary" has the characters' codes, separated by spaces, and
/// "characters" says whether these are code points or bytes.
std::map<std::string, std::string> vocabulary_metadata(const nn::Vocabulary& vocabulary);
/// The vocabulary in the metadata of the model file `path`.
///
/// Throws: IoError, which names the file, if there is none or one of its codes is not a byte or a code point.
nn::Vocabulary vocabulary_of(const std::map<std::string, std::string>& metadata, const std::filesystem::path& path);

}  // namespace linnet::examples
