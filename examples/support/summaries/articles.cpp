#include "support/summaries/articles.h"

#include <cerrno>
#include <cstdio>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/error.h>
#include <linnet/core/files/json.h>
#include <linnet/core/files/read_file.h>

namespace linnet::examples {

void SkippedArticles::add(const std::string& place, const std::string& why) {
  if (strict_) throw IoError(fmt::format("{}: {}", place, why));
  constexpr int64_t kShown = 5;
  if (++count_ <= kShown) fmt::print(stderr, "{}: {}; left out\n", place, why);
}

void SkippedArticles::report() const {
  if (count_ > 0) fmt::print(stderr, "{} malformed articles were left out; --strict makes them an error\n", count_);
}

std::vector<Article> read_article_lines(const std::filesystem::path& path, SkippedArticles& skipped) {
  std::ifstream file = linnet::detail::open_to_read(path);
  std::vector<Article> articles;
  std::string line;
  errno = 0;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      const nlohmann::json object = linnet::detail::parse_json(line);
      if (!object.is_object()) throw ValueError("an object is expected, such as {\"article\": …, \"summary\": …}");
      articles.push_back(object.contains("article_text") ? pubmed_article_of(object) : article_of(object));
    } catch (const nlohmann::json::exception& error) {
      skipped.add(fmt::format("{}, line {}", path.string(), number),
                  fmt::format("an object of JSON is expected ({})", error.what()));
    } catch (const ValueError& error) {
      skipped.add(fmt::format("{}, line {}", path.string(), number), error.what());
    }
  }
  if (file.bad()) linnet::detail::cannot_read(path);
  if (articles.empty()) throw IoError(fmt::format("{} has no articles", path.string()));
  return articles;
}

Article article_of(const nlohmann::json& object) {
  Article article;
  for (const auto& [name, text] : {std::pair{"article", &article.text}, std::pair{"summary", &article.summary}}) {
    const auto field = object.find(name);
    if (field == object.end() || !field->is_string() || field->get_ref<const std::string&>().empty()) {
      throw ValueError(fmt::format("a text is expected in the field \"{}\"", name));
    }
    *text = field->get<std::string>();
  }
  return article;
}

}  // namespace linnet::examples
