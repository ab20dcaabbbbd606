#include "support/tasks/word_vectors.h"

#include <cstdio>
#include <filesystem>

#include <fmt/format.h>

#include "support/format.h"

namespace linnet::examples {

namespace {

/// Any vectors of the width that a run began with. Undefined if that is its model's, which then has no linear map.
Tensor any_vectors(const Settings& s, const nn::WordVocabulary& vocabulary) {
  const auto map = read_safetensors(s.out / "checkpoint.safetensors", [](const std::string& name) {
                     return name == "model.map.weight";
                   }).tensors;
  return map.empty() ? Tensor() : zeros({vocabulary.size(), map.begin()->second.size(1)});
}

}  // namespace

void check_word_vectors(const Settings& s) {
  const std::string& path = s.texts.glove;
  std::error_code error;
  if (s.resume || path.empty() || std::filesystem::exists(path, error)) return;
  throw IoError(fmt::format("--glove {}: {}", path, error ? error.message() : "there is no such file"));
}

Tensor word_vectors(const Settings& s, const nn::WordVocabulary& vocabulary) {
  if (s.texts.glove.empty()) return {};
  if (s.resume) return any_vectors(s, vocabulary);
  constexpr uint64_t kStream = uint64_t{1} << 40;  // keeps this generator apart from the model's
  Generator rng(s.seed + kStream);
  const nn::WordVectors glove = nn::read_glove(s.texts.glove, vocabulary, rng);
  fmt::print(
      stderr, "{}: vectors of {} words of {}{}\n", s.texts.glove, format_count(glove.found),
      format_count(vocabulary.size()),
      glove.repeated == 0 ? "" : fmt::format("; {} repeated lines do not count", format_count(glove.repeated)));
  return glove.vectors;
}

void begin_with(const Tensor& vectors, Tensor embeddings) {
  if (!vectors.defined()) return;
  const NoGrad no_grad;
  embeddings.copy_(vectors);
}

}  // namespace linnet::examples
