#include "support/texts/sets.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "support/settings/program.h"
#include "support/tasks/data_sets.h"
#include "support/texts/speakers.h"
#include "support/texts/stand_in.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRatings = 5, kTopics = 18;  // classes of the reviews and of the news

constexpr const char* kTopicTexts = "generated texts about topics, of which the label is the commonest";
constexpr const char* kOrderedTexts = "generated texts whose label is the order of two words";

TextParts read_play(const fs::path& path, const Settings& /*settings*/, MalformedLines& /*malformed*/) {
  return read_speakers(path);
}

TextParts read_all(const fs::path& path, const Settings& settings, MalformedLines& malformed) {
  return read_text_parts(path, settings, malformed);
}

/// As many reviews as Wu et al. 2021 drew, table 1.
TextParts read_ratings(const fs::path& path, const Settings& settings, MalformedLines& malformed) {
  constexpr int64_t kMost = 50'000;
  return read_text_parts(path, settings, malformed, kMost);
}

TextParts read_reviews_by_folders(const fs::path& train, const Settings& settings, MalformedLines& malformed) {
  return read_text_parts(fs::is_directory(train) ? train.parent_path() : train, settings, malformed);
}

TextParts ratings_stand_in(const Settings& s) { return topic_texts(kRatings, s.lra.data_seed); }
TextParts topics_stand_in(const Settings& s) { return topic_texts(kTopics, s.lra.data_seed); }
TextParts ordered_stand_in(const Settings& s) { return ordered_texts(s.lra.data_seed); }

/// Throws UsageError for flags that say how files are read.
void refuse_files_for_generated(const Settings& s) {
  if (const char* const flag = flag_of_files(s)) refuse_for_generated(flag, true);
}

/// The file that --data names itself, or the first of the set's files in the data folders. None if --stand-in
/// uses other data. Throws as find_public.
std::optional<FoundData> find_texts(const Settings& settings, const TextSet& set) {
  std::error_code error;
  const bool is_file = fs::is_regular_file(settings.data, error);
  if (set.names.empty() && settings.data.empty()) {
    throw UsageError(fmt::format("--task {} takes texts of your own; name them with --data", set.task));
  }
  if (is_file || set.names.empty()) {
    if (!fs::exists(settings.data, error)) {
      throw IoError(fmt::format("--data {}: there is no such file or folder", settings.data.string()));
    }
    return FoundData{settings.data, last_name(settings.data)};
  }
  for (const std::string& name : set.names) {
    if (auto found = find_data(settings, set.files.folder, name)) return FoundData{found->path / name, found->name};
  }
  return find_public(settings, set.files);
}

/// The name with the size and the CRC-32 of all texts and labels.
std::string name_by_texts(const TextParts& parts, const std::string& name) {
  std::vector<std::span<const std::byte>> bytes;
  for (const std::vector<LabelledText>* part : {&parts.train, &parts.dev, &parts.test}) {
    for (const LabelledText& text : *part) {
      bytes.push_back(std::as_bytes(std::span(text.text)));
      bytes.push_back(std::as_bytes(std::span(text.label)));
    }
  }
  return name_by_content(bytes, name);
}

}  // namespace

const std::vector<TextSet>& text_sets() {
  static const std::vector<TextSet> sets{
      {.task = "speakers",
       .files = {.name = "Tiny Shakespeare",
                 .folder = "tinyshakespeare",
                 .file = "input.txt",
                 .files = "input.txt",
                 .source = "fetched by examples/fetch_data.sh",
                 .stand_in = kTopicTexts,
                 .is_in = nullptr,
                 .check_stand_in = refuse_files_for_generated},
       .names = {"input.txt"},
       .read = read_play,
       .stand_in = [](const Settings& s) { return topic_texts(10, s.lra.data_seed); }},
      {.task = "amazon",
       .files = {.name = "Amazon reviews",
                 .folder = "amazon",
                 .file = "reviews_Electronics_5.json.gz",
                 .files = "reviews_Electronics_5.json.gz, or unpacked",
                 .source = "published at https://jmcauley.ucsd.edu/data/amazon/",
                 .stand_in = kTopicTexts,
                 .is_in = nullptr,
                 .check_stand_in = refuse_files_for_generated},
       .names = {"reviews_Electronics_5.json.gz", "reviews_Electronics_5.json"},
       .read = read_ratings,
       .stand_in = ratings_stand_in},
      {.task = "imdb",
       .files = {.name = "IMDb reviews",
                 .folder = "aclImdb",
                 .file = "train",
                 .files = "{train,test}/{neg,pos}/*.txt",
                 .source = "published at https://ai.stanford.edu/~amaas/data/sentiment/",
                 .stand_in = kOrderedTexts,
                 .is_in = nullptr,
                 .check_stand_in = refuse_files_for_generated},
       .names = {"train"},
       .read = read_reviews_by_folders,
       .stand_in = ordered_stand_in},
      {.task = "mind-topics",
       .files = {.name = "MIND",
                 .folder = "mind",
                 .file = "train/news.tsv",
                 .files = "train/news.tsv",
                 .source = "published at https://msnews.github.io",
                 .stand_in = kTopicTexts,
                 .is_in = nullptr,
                 .check_stand_in = refuse_files_for_generated},
       .names = {"train/news.tsv"},
       .read = read_all,
       .stand_in = topics_stand_in},
      {.task = "own-texts", .files = {}, .names = {}, .read = read_all, .stand_in = nullptr}};
  return sets;
}

NamedTexts load_labelled_texts(const Settings& settings) {
  const auto set = std::ranges::find(text_sets(), settings.task, &TextSet::task);
  if (set == text_sets().end()) throw UsageError(fmt::format("--task {}: no task of texts", settings.task));
  const auto found = find_texts(settings, *set);
  if (!found) {
    return {.name = fmt::format("stand-in: {} (seed {})", set->files.stand_in, settings.lra.data_seed),
            .parts = set->stand_in(settings)};
  }
  MalformedLines malformed(settings.texts.strict);
  TextParts parts = set->read(found->path, settings, malformed);
  malformed.report(found->name);
  std::string name = name_by_texts(parts, found->name);
  return {.name = std::move(name), .parts = std::move(parts)};
}

}  // namespace linnet::examples
