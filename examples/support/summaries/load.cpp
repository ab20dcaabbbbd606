#include "support/summaries/load.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include <fmt/format.h>

#include "support/draws.h"
#include "support/lra/public_set.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStandIn = "capital letters to sort";

/// Throws UsageError for flags of byte pairs and of files, which generated letters do not have.
void refuse_flags_of_articles(const Settings& s) {
  refuse_for_generated("--vocabulary", s.summary.vocabulary != preset(s.task, s.preset).summary.vocabulary);
  refuse_for_generated("--strict", s.summary.strict);
}

PublicSet public_set(const std::string& task) {
  if (task == "pubmed") {
    return {.name = "PubMed",
            .folder = "pubmed-dataset",
            .file = {},
            .files = "{train,val,test}.txt",
            .source = "published at https://github.com/armancohan/long-summarization",
            .stand_in = kStandIn,
            .is_in = nullptr,
            .check_stand_in = refuse_flags_of_articles};
  }
  return {.name = "CNN/DailyMail",
          .folder = "cnn-dailymail",
          .file = {},
          .files = "*.story in its folders, or {train,val,test}.jsonl",
          .source = "published at https://cs.nyu.edu/~kcho/DMQA",
          .stand_in = kStandIn,
          .is_in = nullptr,
          .check_stand_in = refuse_flags_of_articles};
}

/// The file or folder of a part, which has one of these names in `folder`; empty if there is none.
fs::path find_part(const fs::path& folder, std::span<const char* const> names) {
  for (const fs::path name : names) {
    for (const char* const ending : {".jsonl", ".txt"}) {
      const fs::path file = folder / (name.string() + ending);
      if (fs::is_regular_file(file)) return file;
    }
    if (fs::is_directory(folder / name)) return folder / name;
  }
  return {};
}

std::vector<Article> read_part(const fs::path& path, MalformedLines& malformed) {
  return fs::is_directory(path) ? read_stories(story_files(path), malformed) : read_article_lines(path, malformed);
}

/// Shuffles the articles, and cuts a tenth off for dev and a tenth for test.
void divide(std::vector<Article> articles, uint64_t seed, ArticleParts& parts) {
  Draws draws({seed, 0});
  for (int64_t i = std::ssize(articles) - 1; i > 0; --i) {
    std::swap(articles[static_cast<size_t>(i)], articles[static_cast<size_t>(draws.below(i + 1))]);
  }
  const int64_t tenth = std::ssize(articles) / 10, test = std::ssize(articles) - tenth, dev = test - tenth;
  const auto begin = std::make_move_iterator(articles.begin());
  parts.train.assign(begin, begin + dev);
  parts.dev.assign(begin + dev, begin + test);
  parts.test.assign(begin + test, std::make_move_iterator(articles.end()));
}

void read_parts(const fs::path& path, const Settings& s, MalformedLines& malformed, ArticleParts& parts) {
  const fs::path train = find_part(path, std::array{"train"}), dev = find_part(path, kValidationNames),
                 test = find_part(path, std::array{"test"});
  if (train.empty() && dev.empty() && test.empty()) return divide(read_part(path, malformed), s.lra.data_seed, parts);
  if (train.empty() || dev.empty() || test.empty()) {
    throw IoError(fmt::format("{} has a part for {}, but none for {}; train, val and test are expected",
                              path.string(),
                              !train.empty() ? "train"
                              : !dev.empty() ? "val"
                                             : "test",
                              train.empty() ? "train"
                              : dev.empty() ? "val"
                                            : "test"));
  }
  // A run of an older version may have begun with the flag.
  if (!s.resume) refuse_data_seed(s, path.string() + ", which has the parts train, val and test");
  parts.train = read_part(train, malformed);
  parts.dev = read_part(dev, malformed);
  parts.test = read_part(test, malformed);
}

/// The name of the data with the size and CRC-32 of their texts.
std::string name_of_articles(const ArticleParts& parts, const std::string& name) {
  std::vector<std::span<const std::byte>> texts;
  for (const auto* part : {&parts.train, &parts.dev, &parts.test}) {
    for (const Article& article : *part) {
      texts.push_back(std::as_bytes(std::span(article.text)));
      texts.push_back(std::as_bytes(std::span(article.summary)));
    }
  }
  return name_by_content(texts, name);
}

}  // namespace

ArticleParts load_articles(const Settings& s) {
  if (s.task == "sort" || s.task == "copy") return generated_articles(s.task == "sort", s.lra.data_seed);
  const std::optional<FoundData> found = find_public(s, public_set(s.task));
  if (!found) {
    ArticleParts parts = generated_articles(/*sorted=*/true, s.lra.data_seed);
    parts.name = "stand-in: " + parts.name;
    return parts;
  }
  MalformedLines malformed(s.summary.strict);
  ArticleParts parts;
  read_parts(found->path, s, malformed, parts);
  malformed.report(found->name);
  if (parts.train.empty() || parts.dev.empty() || parts.test.empty()) {
    throw IoError(fmt::format("{} has {} articles to train on, {} for validation and {} to test; each part needs one",
                              found->path.string(), parts.train.size(), parts.dev.size(), parts.test.size()));
  }
  parts.name = name_of_articles(parts, found->name);
  return parts;
}

}  // namespace linnet::examples
