#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/error.h>

#include "support/summaries/articles.h"

namespace linnet::examples {
namespace {

/// The text without blanks at its ends.
std::string_view stripped(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

/// A sentence without the marks of its ends.
std::string_view without_marks(std::string_view sentence) {
  constexpr std::string_view kBegin = "<S>", kEnd = "</S>";
  sentence = stripped(sentence);
  if (sentence.starts_with(kBegin)) sentence.remove_prefix(kBegin.size());
  if (sentence.ends_with(kEnd)) sentence.remove_suffix(kEnd.size());
  return stripped(sentence);
}

/// The sentences of a field, on lines of their own.
std::string sentences_of(const nlohmann::json& object, const char* name) {
  const auto field = object.find(name);
  if (field == object.end() || !field->is_array()) {
    throw ValueError(fmt::format("a list of sentences is expected in the field \"{}\"", name));
  }
  std::string text;
  for (const nlohmann::json& sentence : *field) {
    if (!sentence.is_string()) throw ValueError(fmt::format("\"{}\" has a sentence that is no text", name));
    const std::string_view words = without_marks(sentence.get_ref<const std::string&>());
    if (words.empty()) continue;
    if (!text.empty()) text += '\n';
    text += words;
  }
  if (text.empty()) throw ValueError(fmt::format("\"{}\" has no sentence", name));
  return text;
}

}  // namespace

Article pubmed_article_of(const nlohmann::json& object) {
  return {sentences_of(object, "article_text"), sentences_of(object, "abstract_text")};
}

}  // namespace linnet::examples
