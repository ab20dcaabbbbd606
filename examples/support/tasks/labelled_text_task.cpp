#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "support/format.h"
#include "support/settings/program.h"
#include "support/tasks/sequence_classification.h"
#include "support/texts/text_data.h"

/// Classifiers of texts by their words (Wu et al. 2021, tables 1 and 4).

namespace linnet::examples {
namespace {

/// The vectors of --glove, of which a line on stderr says how many words have one. Undefined without --glove.
Tensor word_vectors(const Settings& s, const nn::WordVocabulary& vocabulary) {
  if (s.texts.glove.empty()) return {};
  constexpr uint64_t kStream = uint64_t{1} << 40;  // another generator than the model's
  Generator rng(s.seed + kStream);
  const nn::WordVectors glove = nn::read_glove(s.texts.glove, vocabulary, rng);
  fmt::print(
      stderr, "{}: vectors of {} words of {}{}\n", s.texts.glove, format_count(glove.found),
      format_count(vocabulary.size()),
      glove.repeated == 0 ? "" : fmt::format("; {} repeated lines do not count", format_count(glove.repeated)));
  return glove.vectors;
}

/// The options of a classifier of texts with a vocabulary of this size, and with these embeddings where they are
/// defined.
ClassifierOptions classifier_options(const Settings& s, int64_t vocabulary, int64_t classes, const Tensor& embeddings,
                                     int64_t tokens_per_example) {
  return {.model = labelled_text_model_config(s, vocabulary, classes, embeddings.defined() ? embeddings.size(1) : 0),
          .macro_f = true,
          .embeddings = embeddings,
          .tokens_per_example = tokens_per_example};
}

}  // namespace

nn::SequenceClassifierConfig labelled_text_model_config(const Settings& s, int64_t vocabulary, int64_t classes,
                                                        int64_t embedding_width) {
  return {.vocabulary = vocabulary,
          .classes = classes,
          .layers = s.layers,
          .share_layers = shares(s, "layers"),
          .max_tokens = s.context,
          .block = block_config(s),
          .positions = positions_of(s),
          .pooling = pool_of(s),
          .linear_head = true,
          .embedding_width = embedding_width};
}

std::unique_ptr<Task> make_labelled_text_task(const Settings& s) {
  check_options(s, s.context);
  TextData texts = text_data(load_labelled_texts(s), s);
  const std::vector<int64_t>& lengths = texts.data.train.lengths;
  const int64_t mean = std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) / std::ssize(lengths);
  ClassifierOptions options = classifier_options(s, texts.vocabulary.size(), std::ssize(texts.classes),
                                                 word_vectors(s, texts.vocabulary), mean);
  return make_sequence_classification(s, std::move(texts.data), std::move(options));
}

std::unique_ptr<Task> make_random_labelled_text_task(const Settings& s) {
  check_options(s, s.context);
  constexpr int64_t kClasses = 10;
  Generator rng(s.seed);
  const int64_t vocabulary = s.texts.vocabulary + 2;
  const auto part = [&]() -> SequencePart {
    std::vector<Tensor> sequences;
    for (int64_t i = 0; i < s.batch; ++i) sequences.push_back(randint(1, vocabulary, {s.context}, rng));
    return {std::make_unique<nn::SequenceDataset>(std::move(sequences), randint(0, kClasses, {s.batch}, rng)),
            std::vector<int64_t>(static_cast<size_t>(s.batch), s.context)};
  };
  return make_sequence_classification(s, {"random tokens", part(), part(), part()},
                                      classifier_options(s, vocabulary, kClasses, {}, s.context));
}

}  // namespace linnet::examples
