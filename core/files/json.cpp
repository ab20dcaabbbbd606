#include <linnet/core/files/json.h>

#include <string_view>

namespace linnet::detail {

namespace {

constexpr int kMaxDepth = 32;

[[noreturn]] void refuse(const std::string& why) { throw nlohmann::json::other_error::create(501, why, nullptr); }

}  // namespace

void prepare_json(std::string& text) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char& c = text[i];
    if (c == '\0') refuse(fmt::format("byte {}: a byte 0", i));
    if (in_string && c == '\\') {
      ++i;  // the next character does not end the string
    } else if (c == '"') {
      in_string = !in_string;
    } else if (in_string) {
      continue;
    } else if (c == '\n' || c == '\r' || c == '\t') {
      c = ' ';
    } else if (c == ']' || c == '}') {
      --depth;
    } else if ((c == '[' || c == '{') && ++depth > kMaxDepth) {
      refuse(fmt::format("byte {}: lists and objects are nested more than {} deep", i, kMaxDepth));
    }
  }
}

nlohmann::json parse_json(std::string text) {
  if (std::ssize(text) > kMaxJsonTree) refuse(fmt::format("it has more than {} bytes", kMaxJsonTree));
  prepare_json(text);
  return nlohmann::json::parse(text);
}

std::string message_of(const nlohmann::json::exception& error) {
  const std::string_view message = error.what();
  const size_t end = message.find("] ");
  return std::string(end == std::string_view::npos ? message : message.substr(end + 2));
}

}  // namespace linnet::detail
