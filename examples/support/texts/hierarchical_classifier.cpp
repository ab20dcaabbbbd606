#include "support/texts/hierarchical_classifier.h"

namespace linnet::examples {
namespace {

constexpr double kWordStd = 0.02;

}  // namespace

HierarchicalClassifier::HierarchicalClassifier(Generator& rng, const Settings& s, int64_t vocabulary, int64_t classes,
                                               int64_t embedding_width, DType dtype, Device device)
    : Module(rng, dtype, device, "HierarchicalClassifier"),
      tok_(*this, "tok", vocabulary, embedding_width > 0 ? embedding_width : s.width),
      map_(tok_.weight().size(1) != s.width
               ? std::make_unique<nn::Linear>(*this, "map", tok_.weight().size(1), s.width)
               : nullptr),
      sentences_(*this, "sentences", s, kMostSentenceWords),
      texts_(*this, "texts", s, kMostSentences),
      fc_(*this, "fc", s.width, classes) {
  Tensor embeddings = tok_.weight();
  nn::init::normal_(embeddings, generator(), 0, kWordStd);
}

Tensor HierarchicalClassifier::operator()(const nn::Batch& batch) const {
  const Tensor &words_mask = batch.others[0], &rows = batch.others[1], &texts_mask = batch.others[2];
  const Tensor words = tok_(batch.inputs);                                         // [U, T, embedding width]
  const Tensor sentences = sentences_(map_ ? (*map_)(words) : words, words_mask);  // [U, C]
  const Tensor of_texts = index_select(sentences, 0, rows.flatten());
  return fc_(texts_(of_texts.reshape({rows.size(0), rows.size(1), sentences.size(1)}), texts_mask));
}

}  // namespace linnet::examples
