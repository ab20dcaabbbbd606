#include "support/summaries/articles.h"

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/error.h>
#include <linnet/core/files/json.h>

#include "support/texts/lines.h"

namespace linnet::examples {

std::vector<Article> read_article_lines(const std::filesystem::path& path, MalformedLines& malformed) {
  std::vector<Article> articles;
  for (LineReader file(path); file.next();) {
    try {
      std::string line(file.line());
      linnet::detail::prepare_json(line);  // parse_json refuses lines of 64 KiB, and articles may be longer
      const nlohmann::json object = nlohmann::json::parse(line);
      if (!object.is_object()) throw ValueError("an object is expected, such as {\"article\": …, \"summary\": …}");
      articles.push_back(object.contains("article_text") ? pubmed_article_of(object) : article_of(object));
    } catch (const nlohmann::json::exception& error) {
      malformed.add(file.place(),
                    fmt::format("an object of JSON is expected ({})", linnet::detail::message_of(error)));
    } catch (const ValueError& error) {
      malformed.add(file.place(), error.what());
    }
  }
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
