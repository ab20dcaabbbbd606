#include "support/lra/documents.h"
#include "support/files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <linnet/core/files/read_file.h>

#include "support/draws.h"
#include "support/lra/public_set.h"
#include "support/lra/tsv.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

const PublicSet kReviews{.name = "IMDb reviews",
                         .folder = "aclImdb",
                         .file = "train/pos",
                         .files = "{train,test}/{neg,pos}/*.txt",
                         .source = "published at https://ai.stanford.edu/~amaas/data/sentiment/",
                         .stand_in = "generated documents of words from two lists"};

const PublicSet kPapers{.name = "ACL Anthology Network",
                        .folder = "tsv_data",
                        .file = "new_aan_pairs.train.tsv",
                        .files = "new_aan_pairs.{train,eval,test}.tsv",
                        .source =
                            "part of lra_release.gz, which is gone where it was published (issue 52 of "
                            "https://github.com/google-research/long-range-arena)",
                        .stand_in = "generated pairs of documents that share a topic or not"};

constexpr std::array<int64_t, 3> kStandInCounts{10000, 2000, 2000};

std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

/// The reviews of train/ or test/.
LabelledSequences read_reviews(const fs::path& folder, int64_t context) {
  ByteSequences texts;
  std::vector<uint8_t> labels;
  for (const uint8_t label : {uint8_t{0}, uint8_t{1}}) {
    const fs::path of_label = folder / (label == 0 ? "neg" : "pos");
    std::set<fs::path> files;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(of_label, error)) {
      if (!is_hidden(entry.path()) && entry.path().extension() == ".txt") files.insert(entry.path());
    }
    if (error) throw IoError(fmt::format("cannot read the folder {}: {}", of_label.string(), error.message()));
    if (files.empty()) {
      throw IoError(fmt::format("no *.txt is in {}; unpack the reviews again", of_label.string()));
    }
    for (const fs::path& file : files) {
      const std::string text = linnet::detail::read_file(file, context);
      if (text.empty()) throw IoError(fmt::format("{} is empty; unpack the reviews again", file.string()));
      texts.append(bytes_of(text));
      labels.push_back(label);
    }
  }
  return {std::move(texts), std::move(labels)};
}

LabelledSequences read_pairs(const fs::path& path, int64_t context) {
  TsvReader file(path, {"label", "id1", "id2", "text1", "text2"});
  std::array<ByteSequences, 2> texts;
  std::vector<uint8_t> labels;
  while (file.next()) {
    const std::string_view label = file.cell(0);
    if (label != "0.0" && label != "1.0") file.refuse("label", label, "0.0 or 1.0 is expected");
    labels.push_back(label == "1.0");
    for (size_t i = 0; i < 2; ++i) {
      const std::string_view text = file.cell(3 + i);
      if (text.empty()) file.refuse(i == 0 ? "text1" : "text2", text, "a text is expected");
      texts[i].append(bytes_of(text.substr(0, static_cast<size_t>(context))));
    }
  }
  return {std::move(texts[0]), std::move(labels), std::move(texts[1])};
}

/// A text of up to `context` bytes, and at least an eighth of them. `next_word` gives the number of each word.
template <class NextWord>
std::string document(Draws& draws, int64_t context, const NextWord& next_word) {
  const auto length = static_cast<size_t>(context - draws.below(context - context / 8));
  std::string text;
  while (text.size() < length) text += made_up_word(next_word()) + ' ';
  text.resize(length);
  return text;
}

/// A document of words from two lists of 200 words, which have 100 in common. About three words of five are from the
/// list of the label.
std::string opinion(RandomKey key, int64_t context, uint8_t label) {
  constexpr int64_t kWords = 200, kOwn = 100;
  Draws draws(key);
  return document(draws, context, [&] {
    const bool is_of_label = draws.below(5) < 3;
    const int64_t list = is_of_label ? label : 1 - label;
    return list * kOwn + draws.below(kWords);
  });
}

/// A document in which half of the words belong to one of 20 topics.
std::string about(RandomKey key, int64_t context, int64_t topic) {
  constexpr int64_t kCommon = 200, kOwn = 20;
  Draws draws(key);
  return document(draws, context, [&] {
    return draws.below(2) == 0 ? draws.below(kCommon) : kCommon + topic * kOwn + draws.below(kOwn);
  });
}

struct StandIn {
  std::array<std::string, 2> texts;
  uint8_t label = 0;
};

StandIn opinion_stand_in(RandomKey key, int64_t context) {
  const auto label = static_cast<uint8_t>(Draws(key).below(2));
  return {{opinion({key.seed, key.stream + 1}, context, label), ""}, label};
}

StandIn pair_stand_in(RandomKey key, int64_t context) {
  constexpr int64_t kTopics = 20;
  Draws draws(key);
  const auto label = static_cast<uint8_t>(draws.below(2));
  const int64_t first = draws.below(kTopics);
  const int64_t second = label == 1 ? first : (first + 1 + draws.below(kTopics - 1)) % kTopics;
  return {{about({key.seed, key.stream + 1}, context, first), about({key.seed, key.stream + 2}, context, second)},
          label};
}

/// Documents that all threads make. Each depends only on the seed and its number.
SequenceData generated(const Settings& settings, const PublicSet& set, StandIn (*make)(RandomKey, int64_t)) {
  constexpr uint64_t kStreams = 3;  // of an example
  uint64_t begin = 0;
  const auto part = [&](int64_t count) {
    std::vector<StandIn> made(static_cast<size_t>(count));
    parallel_tasks(count, [&](int64_t i) {
      const uint64_t stream = (begin + static_cast<uint64_t>(i)) * kStreams;
      made[static_cast<size_t>(i)] = make({settings.lra.data_seed, stream}, settings.context);
    });
    begin += static_cast<uint64_t>(count);
    ByteSequences first, second;
    std::vector<uint8_t> labels;
    for (const StandIn& example : made) {
      first.append(bytes_of(example.texts[0]));
      if (!example.texts[1].empty()) second.append(bytes_of(example.texts[1]));
      labels.push_back(example.label);
    }
    return LabelledSequences(std::move(first), std::move(labels), std::move(second));
  };
  return {.name = fmt::format("stand-in: {} (seed {})", set.stand_in, settings.lra.data_seed),
          .train = part(kStandInCounts[0]),
          .dev = part(kStandInCounts[1]),
          .test = part(kStandInCounts[2])};
}

}  // namespace

std::string made_up_word(int64_t i) {
  constexpr std::string_view kConsonants = "bdfgklmnprst", kVowels = "aeio";
  constexpr int64_t kSyllables = std::ssize(kConsonants) * std::ssize(kVowels);
  std::string text;
  for (const int64_t syllable : {i % kSyllables, i / kSyllables % kSyllables}) {
    text += kConsonants[static_cast<size_t>(syllable / std::ssize(kVowels))];
    text += kVowels[static_cast<size_t>(syllable % std::ssize(kVowels))];
  }
  return text;
}

SequenceData load_reviews(const Settings& settings) {
  const auto found = find_public(settings, kReviews);
  if (!found) return generated(settings, kReviews, opinion_stand_in);
  refuse_data_seed(settings, *found);
  const LabelledSequences test = read_reviews(found->path / "test", settings.context);
  return named_by_content(
      found->name,
      {.name = {}, .train = read_reviews(found->path / "train", settings.context), .dev = test, .test = test});
}

SequenceData load_retrieval(const Settings& settings) {
  const auto found = find_public(settings, kPapers);
  if (!found) return generated(settings, kPapers, pair_stand_in);
  refuse_data_seed(settings, *found);
  const auto read = [&](const std::string& part) {
    return read_pairs(found->path / fmt::format("new_aan_pairs.{}.tsv", part), settings.context);
  };
  return named_by_content(found->name,
                          {.name = {}, .train = read("train"), .dev = read("eval"), .test = read("test")});
}

}  // namespace linnet::examples
