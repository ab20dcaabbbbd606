#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <linnet/linnet.h>

namespace linnet::examples {

/// The sentences of a text, as the ids of their words.
using Sentences = std::vector<std::vector<int32_t>>;

/// The sentences of a text. A sentence ends at `.`, `!` or `?`, or after several of these marks, and where a line
/// ends. A text without words is one sentence of one unknown word.
Sentences sentences_of(std::string_view text, const nn::WordVocabulary& vocabulary);

/// Keeps only the first kMostSentenceWords words of the first kMostSentences sentences. Returns whether there were
/// more.
bool cut(Sentences& sentences);

/// Texts as sentences, with a label each. A batch has the words of its U sentences [U, T] as `inputs`, and as
/// `others` their padding mask, the sentences of each text as rows of the words [B, S], and the padding mask of
/// these.
///
/// Dtypes: ids, rows and labels int64; masks bool, false at padding.
class SentenceDataset : public nn::Dataset {
 public:
  /// Shapes: labels [texts].
  SentenceDataset(std::vector<Sentences> texts, Tensor labels);

  int64_t size() const override { return std::ssize(texts_); }
  nn::Batch collate(std::span<const int64_t> indices, RandomKey key) const override;

 private:
  std::vector<Sentences> texts_;
  Tensor labels_;
};

}  // namespace linnet::examples
