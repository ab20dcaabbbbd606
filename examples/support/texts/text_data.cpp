#include "support/texts/text_data.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linnet/core/files/utf8.h>

#include "support/format.h"
#include "support/texts/sentences.h"

namespace linnet::examples {
namespace {

/// The number that the whole label is.
std::optional<double> number_of(const std::string& label) {
  double value = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), value);
  const bool is_number = error == std::errc() && end == label.data() + label.size() && value == value;
  return is_number ? std::optional(value) : std::nullopt;
}

std::vector<std::string> classes_of(const NamedTexts& texts) {
  std::set<std::tuple<bool, double, std::string>> sorted;
  for (const LabelledText& text : texts.parts.train) {
    const std::optional<double> number = number_of(text.label);
    sorted.emplace(!number, number.value_or(0), text.label);
  }
  std::vector<std::string> classes;
  for (const auto& [is_word, number, label] : sorted) classes.push_back(label);
  if (classes.size() >= 2) return classes;
  throw IoError(fmt::format("{}: the texts to train on all have the label '{}'; a classifier needs two or more",
                            texts.name, linnet::detail::shortened(fmt::format("{}", fmt::join(classes, "")))));
}

nn::WordVocabulary vocabulary_of(const TextParts& parts, const LabelledTextSettings& settings) {
  std::vector<std::string> texts;
  texts.reserve(parts.train.size());
  for (const LabelledText& text : parts.train) texts.push_back(text.text);
  constexpr int64_t kOthers = 2;  // padding and the unknown word
  return nn::WordVocabulary::build(texts,
                                   {.min_freq = settings.min_count, .max_tokens = settings.vocabulary + kOthers});
}

/// Makes parts of texts, and counts the texts that are cut.
class PartMaker {
 public:
  PartMaker(const std::vector<std::string>& classes, const nn::WordVocabulary& vocabulary, const Settings& settings)
      : classes_(classes), vocabulary_(vocabulary), settings_(settings) {
    for (const std::string& name : classes) class_of_.emplace(name, std::ssize(class_of_));
  }

  SequencePart operator()(const std::vector<LabelledText>& texts) {
    std::vector<int64_t> labels;
    for (const LabelledText& text : texts) labels.push_back(label_of(text));
    all_ += std::ssize(texts);
    return levels_of(settings_) == TextLevels::word ? words(texts, tensor(labels)) : sentences(texts, tensor(labels));
  }

  void report(const std::string& data) const {
    if (cut_ == 0) return;
    const std::string where =
        levels_of(settings_) == TextLevels::word
            ? fmt::format("after {} words (--context)", settings_.context)
            : fmt::format("to {} sentences of {} words (--levels sentence)", kMostSentences, kMostSentenceWords);
    fmt::print(stderr, "{}: {} of {} texts are cut {}\n", data, format_count(cut_), format_count(all_), where);
  }

 private:
  SequencePart words(const std::vector<LabelledText>& texts, Tensor labels) {
    std::vector<Tensor> sequences;
    std::vector<int64_t> lengths;
    for (const LabelledText& text : texts) {
      std::vector<int64_t> ids = vocabulary_.encode(text.text);
      if (ids.empty()) ids.push_back(nn::WordVocabulary::kUnknown);
      if (std::ssize(ids) > settings_.context) {
        ++cut_;
        ids.resize(static_cast<size_t>(settings_.context));
      }
      lengths.push_back(std::ssize(ids));
      sequences.push_back(tensor(ids));
    }
    return {
        std::make_unique<nn::SequenceDataset>(std::move(sequences), std::move(labels), nn::WordVocabulary::kPadding),
        std::move(lengths)};
  }

  /// The lengths are the numbers of words, of all sentences together.
  SequencePart sentences(const std::vector<LabelledText>& texts, Tensor labels) {
    std::vector<Sentences> all;
    std::vector<int64_t> lengths;
    for (const LabelledText& text : texts) {
      Sentences& of_text = all.emplace_back(sentences_of(text.text, vocabulary_));
      if (cut(of_text)) ++cut_;
      int64_t& length = lengths.emplace_back(0);
      for (const std::vector<int32_t>& sentence : of_text) length += std::ssize(sentence);
    }
    return {std::make_unique<SentenceDataset>(std::move(all), std::move(labels)), std::move(lengths)};
  }

  int64_t label_of(const LabelledText& text) const {
    const auto found = class_of_.find(text.label);
    if (found != class_of_.end()) return found->second;
    throw IoError(
        fmt::format("{}: no text to train on has the label '{}'; give that label more texts, or divide the "
                    "texts by another --data-seed; the labels are {}",
                    text.place, linnet::detail::shortened(text.label),
                    linnet::detail::shortened(fmt::format("{}", fmt::join(classes_, ", ")))));
  }

  const std::vector<std::string>& classes_;
  std::unordered_map<std::string, int64_t> class_of_;
  const nn::WordVocabulary& vocabulary_;
  const Settings& settings_;
  int64_t cut_ = 0, all_ = 0;
};

}  // namespace

TextData text_data(const NamedTexts& texts, const Settings& settings) {
  std::vector<std::string> classes = classes_of(texts);
  nn::WordVocabulary vocabulary = vocabulary_of(texts.parts, settings.texts);
  PartMaker part(classes, vocabulary, settings);
  ClassifierData data{.name = texts.name,
                      .train = part(texts.parts.train),
                      .dev = part(texts.parts.dev),
                      .test = part(texts.parts.test)};
  part.report(texts.name);
  return {std::move(classes), std::move(vocabulary), std::move(data)};
}

}  // namespace linnet::examples
