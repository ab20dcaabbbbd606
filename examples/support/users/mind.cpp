#include "support/users/mind.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <linnet/core/files/utf8.h>

#include "support/format.h"
#include "support/tasks/data_sets.h"
#include "support/tasks/word_vectors.h"
#include "support/users/records.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;
using Malformed = RecordReader::Malformed;

/// The columns of a line, which must be `count`.
std::vector<std::string_view> columns_of(std::string_view line, size_t count, const char* names) {
  std::vector<std::string_view> columns = split(line, '\t');
  if (columns.size() == count) return columns;
  throw Malformed(
      fmt::format("{} columns, where {} are expected: {}, with tabs between", columns.size(), count, names));
}

/// The news ids in a column, between blanks.
std::vector<std::string_view> ids_in(std::string_view column) {
  std::vector<std::string_view> ids = split(column, ' ');
  std::erase(ids, "");
  return ids;
}

struct Candidate {
  std::string_view id;
  bool clicked = false;
};

/// "N12-1" as news N12, clicked.
Candidate labelled(std::string_view text) {
  const bool clicked = text.ends_with("-1");
  if (text.size() > 2 && (clicked || text.ends_with("-0"))) return {text.substr(0, text.size() - 2), clicked};
  throw Malformed(fmt::format("candidate '{}'; a news id is expected, with -1 if it was clicked and -0 if not",
                              linnet::detail::shortened(text)));
}

/// The news of several folders.
class News {
 public:
  News(const Settings& settings, const fs::path& train) : settings_(settings) {
    std::vector<std::string> titles;
    std::vector<std::string> ids;
    read(train, [&](std::string_view id, std::string_view title) {
      ids.emplace_back(id);
      titles.emplace_back(title);
    });
    words_ = nn::WordVocabulary::build(titles, kWordOptions);
    for (size_t i = 0; i < ids.size(); ++i) add(ids[i], titles[i]);
  }

  /// Adds the news of another folder. If an id occurs several times, the first news counts.
  void add(const fs::path& folder) {
    read(folder, [&](std::string_view id, std::string_view title) { add(id, title); });
  }

  std::vector<Impression> impressions(const fs::path& folder, bool has_labels) const;
  const nn::WordVocabulary& words() const { return *words_; }
  const Lists& items() const { return items_; }

 private:
  template <class Use>
  void read(const fs::path& folder, const Use& use) const {
    RecordReader(folder / "news.tsv", settings_.of_users.strict).for_each([&](std::string_view line) {
      const auto columns =
          columns_of(line, 8, "id, category, subcategory, title, abstract, url, title entities, abstract entities");
      if (columns[0].empty()) throw Malformed("an empty news id; an id such as N12 is expected");
      use(columns[0], columns[3]);
    });
  }
  void add(std::string_view id, std::string_view title) {
    if (!numbers_.emplace(id, static_cast<int32_t>(items_.size())).second) return;
    items_.append(first_words(*words_, title, settings_.of_users.title_words));
  }
  /// The number of the news; Impression::kUnknown if there is none.
  int32_t number_of(std::string_view id) const {
    const auto found = numbers_.find(std::string(id));
    return found != numbers_.end() ? found->second : Impression::kUnknown;
  }

  const Settings& settings_;
  std::optional<nn::WordVocabulary> words_;
  std::unordered_map<std::string, int32_t> numbers_;
  Lists items_;
};

std::vector<Impression> News::impressions(const fs::path& folder, bool has_labels) const {
  const fs::path path = folder / "behaviors.tsv";
  std::vector<Impression> all;
  int64_t unknown_history = 0, unknown_candidates = 0;
  RecordReader(path, settings_.of_users.strict).for_each([&](std::string_view line) {
    const auto columns = columns_of(line, 5, "impression id, user id, time, history, impressions");
    Impression impression;
    const auto [end, error] =
        std::from_chars(columns[0].data(), columns[0].data() + columns[0].size(), impression.id);
    if (error != std::errc() || end != columns[0].data() + columns[0].size()) {
      throw Malformed(
          fmt::format("impression id '{}'; a whole number is expected", linnet::detail::shortened(columns[0])));
    }
    for (const std::string_view id : ids_in(columns[3])) {
      impression.history.push_back(number_of(id));
    }
    const auto lacking = static_cast<int64_t>(std::erase(impression.history, Impression::kUnknown));
    const int64_t surplus = std::ssize(impression.history) - settings_.of_users.history;
    if (surplus > 0) impression.history.erase(impression.history.begin(), impression.history.begin() + surplus);
    for (const std::string_view text : ids_in(columns[4])) {
      const Candidate candidate = has_labels ? labelled(text) : Candidate{text};
      impression.candidates.push_back(number_of(candidate.id));
      if (has_labels) impression.clicked.push_back(candidate.clicked);
    }
    if (impression.candidates.empty()) throw Malformed("no candidates; at least one is expected");
    unknown_history += lacking;
    unknown_candidates += std::ranges::count(impression.candidates, Impression::kUnknown);
    all.push_back(std::move(impression));
  });
  if (unknown_history + unknown_candidates > 0) {
    fmt::print(stderr, "{}: {} news of histories and {} candidates are not in news.tsv, and are left out\n",
               path.string(), format_count(unknown_history), format_count(unknown_candidates));
  }
  return all;
}

/// The folder with train/. Throws IoError if the files are absent.
FoundData find_mind(const Settings& settings) {
  const auto found = find_data(settings, "MIND", "train/behaviors.tsv");
  const auto has = [&](const char* file) {
    std::error_code ignored;
    return fs::exists(found->path / file, ignored);
  };
  if (found && has("train/news.tsv") && has("dev/news.tsv") && has("dev/behaviors.tsv")) return *found;
  throw IoError(fmt::format(
      "no MIND (train/ and dev/, each with news.tsv and behaviors.tsv) in {0} or {0}/MIND; it is published "
      "at https://msnews.github.io, and without --data clicks are generated",
      settings.data.string()));
}

std::string content_name(const std::string& name, const ClickSet& set) {
  std::vector<std::span<const std::byte>> parts{std::as_bytes(set.items.numbers())};
  std::vector<uint8_t> labels;
  for (const auto* impressions : {&set.train, &set.dev}) {
    for (const Impression& impression : *impressions) {
      for (const auto* list : {&impression.history, &impression.candidates}) {
        parts.push_back(std::as_bytes(std::span(*list)));
      }
      labels.insert(labels.end(), impression.clicked.begin(), impression.clicked.end());
    }
  }
  parts.push_back(std::as_bytes(std::span(labels)));
  return name_by_content(parts, name);
}

}  // namespace

ClickSet load_mind(const Settings& settings) {
  const FoundData found = find_mind(settings);
  News news(settings, found.path / "train");
  ClickSet set;
  set.embeddings = word_vectors(settings, news.words());
  set.train = news.impressions(found.path / "train", true);
  news.add(found.path / "dev");
  set.dev = news.impressions(found.path / "dev", true);
  set.vocabulary = news.words().size();
  set.items = news.items();
  set.name = content_name(found.name, set);
  return set;
}

PredictedClicks load_mind_to_predict(const Settings& settings) {
  const FoundData found = find_mind(settings);
  News news(settings, found.path / "train");
  std::error_code ignored;
  const bool has_test = fs::exists(found.path / "test" / "behaviors.tsv", ignored);
  PredictedClicks clicks;
  clicks.folder = found.path / (has_test ? "test" : "dev");
  news.add(clicks.folder);
  clicks.impressions = news.impressions(clicks.folder, !has_test);
  clicks.items = news.items();
  return clicks;
}

}  // namespace linnet::examples
