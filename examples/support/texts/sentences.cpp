#include "support/texts/sentences.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include <linnet/nn/data/check_index.h>

#include "support/settings/settings.h"
#include "support/tasks/lists.h"

namespace linnet::examples {
namespace {

void add_sentences_of_line(std::string_view line, const nn::WordVocabulary& vocabulary, Sentences& sentences) {
  bool begins = true, has_ended = false;
  for (const std::string& word : nn::word_tokenize(line)) {
    const bool ends = word == "." || word == "!" || word == "?";
    if (begins || (has_ended && !ends)) sentences.emplace_back();
    sentences.back().push_back(static_cast<int32_t>(vocabulary.id(word)));
    begins = false;
    has_ended = ends;
  }
}

/// Shortens a list to its first `most` elements. Returns whether there were more.
bool shorten(auto& list, int64_t most) {
  if (std::ssize(list) <= most) return false;
  list.resize(static_cast<size_t>(most));
  return true;
}

}  // namespace

Sentences sentences_of(std::string_view text, const nn::WordVocabulary& vocabulary) {
  Sentences sentences;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    add_sentences_of_line(text.substr(0, end), vocabulary, sentences);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (sentences.empty()) sentences.push_back({static_cast<int32_t>(nn::WordVocabulary::kUnknown)});
  return sentences;
}

bool cut(Sentences& sentences) {
  bool is_cut = shorten(sentences, kMostSentences);
  for (std::vector<int32_t>& words : sentences) is_cut |= shorten(words, kMostSentenceWords);
  return is_cut;
}

SentenceDataset::SentenceDataset(std::vector<Sentences> texts, Tensor labels)
    : texts_(std::move(texts)), labels_(std::move(labels)) {}

nn::Batch SentenceDataset::collate(std::span<const int64_t> indices, RandomKey) const {
  std::vector<std::span<const int32_t>> sentences;
  Lists rows;
  for (const int64_t index : indices) {
    detail::check_index(index, size());
    const Sentences& text = texts_[static_cast<size_t>(index)];
    std::vector<int32_t> of_text(text.size());
    std::iota(of_text.begin(), of_text.end(), static_cast<int32_t>(sentences.size()));
    rows.append(of_text);
    sentences.insert(sentences.end(), text.begin(), text.end());
  }
  std::vector<std::span<const int32_t>> texts;
  for (int64_t i = 0; i < rows.size(); ++i) texts.push_back(rows[i]);
  const PaddedLists words = padded(sentences), of_texts = padded(texts);
  return {words.numbers,
          index_select(labels_, 0, tensor(std::vector<int64_t>(indices.begin(), indices.end()))),
          {words.mask, of_texts.numbers, of_texts.mask}};
}

}  // namespace linnet::examples
