#include "tests/support/public_functions.h"

#include <regex>

namespace linnet::test {
namespace {

std::string without_comments(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(//[^\n]*|#[^\n]*)"), "");
}

/// The position after the closing bracket, for the position `at` after its opening bracket.
size_t skip(const std::string& text, size_t at, char open, char close) {
  for (int depth = 1; depth > 0 && at < text.size(); ++at) {
    if (text[at] == open) ++depth;
    if (text[at] == close) --depth;
  }
  return at;
}

}  // namespace

std::set<std::string> functions_in(const std::string& header) {
  static const std::regex kNamespace(R"(namespace\s+linnet\s*$)");
  static const std::regex kDeclarator(R"((\w+)\s*$)");
  static const std::regex kOperator(R"(\boperator\b)");
  const std::string text = without_comments(header);
  std::set<std::string> names;
  std::string before;  // the declaration so far, without the text in its brackets
  for (size_t at = 0; at < text.size();) {
    const char c = text[at++];
    std::smatch match;
    if (c == '{') {
      if (!std::regex_search(before, kNamespace)) at = skip(text, at, '{', '}');
      before.clear();
    } else if (c == ';' || c == '}') {
      before.clear();
    } else if (c == '(') {
      const bool is_operator = std::regex_search(before, kOperator);
      if (!is_operator && std::regex_search(before, match, kDeclarator)) names.insert(match[1]);
      at = skip(text, at, '(', ')');
    } else {
      before += c;
    }
  }
  return names;
}

std::set<std::string> tensor_members_in(const std::string& header) {
  static const std::regex kMember(R"(\n  (?:Tensor|std::vector<Tensor>) (\w+)\()");
  const std::string text = without_comments(header);
  std::set<std::string> names;
  for (std::sregex_iterator member(text.begin(), text.end(), kMember), end; member != end; ++member) {
    names.insert((*member)[1]);
  }
  return names;
}

}  // namespace linnet::test
