#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include <linnet/core/random/generator.h>
#include <linnet/nn/models/decoder.h>

namespace linnet::nn {

/// How tokens are drawn. The names are those of Hugging Face's `generate`, but its defaults differ: it takes the most
/// likely token, and if it samples, its top_k is 50.
struct GenerateOptions {
  int64_t max_new_tokens = 20;  ///< how many tokens are drawn, at most
  double temperature = 1;       ///< divides the logits; 0 takes the most likely token
  int64_t top_k = 0;            ///< draws among the k most likely tokens; 0 for all
  /// Nucleus sampling (Holtzman et al. 2020), after temperature and top_k: draws from the smallest set of most likely
  /// tokens whose probabilities sum to at least top_p; 1 for all.
  double top_p = 1;
  /// The end token: it is the last one that is drawn, and the last id of the result.
  std::optional<int64_t> eos_token_id = {};
};

/// Continues a text, one token at a time through the model's step form, and returns the new token ids. `on_token`
/// gets each id as it is drawn. When all learned positions are used, the model drops the older half of its context. A
/// model whose attention has no step form evaluates the last `context` tokens for every new one, or all of them if
/// `context` is 0. During the call the model is in evaluation mode.
///
///     const auto ids = nn::generate(model, vocabulary.encode("ROMEO:"), rng, {.max_new_tokens = 300});
///     std::cout << vocabulary.decode(ids);
///
/// Throws: ValueError for an empty prompt, for options out of range, and for an end token outside the vocabulary;
/// IndexError for another id outside it.
std::vector<int64_t> generate(DecoderLM& model, std::span<const int64_t> prompt, Generator& rng,
                              const GenerateOptions& options = {},
                              const std::function<void(int64_t id)>& on_token = {}, Where where = {});

}  // namespace linnet::nn
