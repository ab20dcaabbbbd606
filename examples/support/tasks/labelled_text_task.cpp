#include <numeric>
#include <utility>

#include "support/tasks/sequence_classification.h"
#include "support/tasks/word_vectors.h"
#include "support/texts/hierarchical_classifier.h"
#include "support/texts/sentences.h"
#include "support/texts/text_data.h"

/// Word-level classifiers of texts (Wu et al. 2021, tables 1 and 4).

namespace linnet::examples {
namespace {

/// The width of the embeddings; 0, which means the model's width, if they are undefined.
int64_t width_of(const Tensor& embeddings) { return embeddings.defined() ? embeddings.size(1) : 0; }

/// A classifier of texts on two levels.
class TwoLevelClassification : public ClassificationTask {
 public:
  TwoLevelClassification(const Settings& s, ClassifierData data, ClassificationMeasures measures, int64_t vocabulary,
                         int64_t classes, const Tensor& embeddings)
      : ClassificationTask(s, std::move(data), measures),
        rng_(s.seed),
        model_(rng_, s, vocabulary, classes, width_of(embeddings), model_dtype(s), device_of(s)) {
    begin_with(embeddings, model_.embeddings());
  }

  nn::Module& model() override { return model_; }
  std::vector<int64_t> lengths() const override { return {kMostSentenceWords, kMostSentences}; }

 private:
  Tensor logits(const nn::Batch& batch) const override { return model_(batch); }

  Generator rng_;
  HierarchicalClassifier model_;
};

/// Throws UsageError for options that the mechanism refuses.
void check_lengths(const Settings& s) {
  const bool has_sentences = levels_of(s) == TextLevels::sentence;
  check_options(s, has_sentences ? kMostSentenceWords : s.context);
  if (has_sentences) check_options(s, kMostSentences);
}

/// The task, with these embeddings if they are defined.
std::unique_ptr<Task> classification_of(const Settings& s, ClassifierData data, int64_t vocabulary, int64_t classes,
                                        const Tensor& embeddings) {
  const std::vector<int64_t>& lengths = data.train.lengths;
  const ClassificationMeasures measures{
      .macro_f = true,
      .tokens_per_example = std::accumulate(lengths.begin(), lengths.end(), int64_t{0}) / std::ssize(lengths)};
  if (levels_of(s) == TextLevels::sentence) {
    return std::make_unique<TwoLevelClassification>(s, std::move(data), measures, vocabulary, classes, embeddings);
  }
  return make_sequence_classification(
      s, std::move(data),
      {.model = labelled_text_model_config(s, vocabulary, classes, width_of(embeddings)),
       .embeddings = embeddings,
       .measures = measures});
}

/// Random texts of full length for a batch.
SequencePart random_part(const Settings& s, int64_t vocabulary, int64_t classes, Generator& rng) {
  const bool has_sentences = levels_of(s) == TextLevels::sentence;
  const int64_t length = has_sentences ? kMostSentences * kMostSentenceWords : s.context;
  std::vector<Tensor> sequences;
  for (int64_t i = 0; i < s.batch; ++i) sequences.push_back(randint(1, vocabulary, {length}, rng));
  Tensor labels = randint(0, classes, {s.batch}, rng);
  std::vector<int64_t> lengths(static_cast<size_t>(s.batch), length);
  if (!has_sentences) {
    return {std::make_unique<nn::SequenceDataset>(std::move(sequences), std::move(labels)), std::move(lengths)};
  }
  std::vector<Sentences> texts;
  for (const Tensor& sequence : sequences) {
    Sentences& text = texts.emplace_back();
    for (const Tensor& sentence : sequence.chunk(kMostSentences)) {
      text.push_back(sentence.to(DType::int32).to_vector<int32_t>());
    }
  }
  return {std::make_unique<SentenceDataset>(std::move(texts), std::move(labels)), std::move(lengths)};
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
  check_lengths(s);
  TextData texts = text_data(load_labelled_texts(s), s);
  return classification_of(s, std::move(texts.data), texts.vocabulary.size(), std::ssize(texts.classes),
                           word_vectors(s, texts.vocabulary));
}

std::unique_ptr<Task> make_random_labelled_text_task(const Settings& s) {
  check_lengths(s);
  constexpr int64_t kClasses = 10;
  Generator rng(s.seed);
  const int64_t vocabulary = s.texts.vocabulary + 2;
  const auto part = [&] { return random_part(s, vocabulary, kClasses, rng); };
  return classification_of(s, {"random tokens", part(), part(), part()}, vocabulary, kClasses, {});
}

}  // namespace linnet::examples
