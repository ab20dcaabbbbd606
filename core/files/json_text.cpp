#include <linnet/core/files/json_text.h>

#include <fmt/format.h>

#include <linnet/core/files/utf8.h>

namespace linnet::detail {

JsonText::JsonText(std::string_view text) : text_(text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();  // as editors leave it
}

char JsonText::peek() {
  space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

std::string JsonText::string() {
  size_t size = 0;  // so that it is made at once
  JsonText ahead = *this;
  ahead.characters([&](std::string_view character) { size += character.size(); });
  std::string result;
  result.reserve(size);
  characters([&](std::string_view character) { result += character; });
  return result;
}

std::string_view JsonText::value() {
  const char first = peek();
  const size_t begin = at_;
  switch (first) {
    case '{': object([&](const std::string&) { value(); }); break;
    case '[': list([&] { value(); }); break;
    case '"': characters([](std::string_view) {}); break;
    case 't': literal("true"); break;
    case 'f': literal("false"); break;
    case 'n': literal("null"); break;
    default: number();
  }
  return text_.substr(begin, at_ - begin);
}

void JsonText::end() {
  space();
  if (at_ < text_.size()) fail("more follows the value");
}

void JsonText::fail(const std::string& what) const { throw JsonError(fmt::format("byte {}: {}", at_, what)); }

void JsonText::space() {
  while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos) ++at_;
}

bool JsonText::takes(char c) {
  space();
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

void JsonText::expect(char c) {
  if (!takes(c)) fail(at_ == text_.size() ? "the text ends too early" : fmt::format("{} is missing", c));
}

void JsonText::open(char bracket) {
  if (peek() == bracket && depth_ == kMaxDepth) {
    fail(fmt::format("lists and objects lie more than {} deep within each other", kMaxDepth));
  }
  expect(bracket);
  ++depth_;
}

bool JsonText::closes(char bracket) {
  if (!takes(bracket)) return false;
  --depth_;
  return true;
}

void JsonText::close(char bracket) {
  expect(bracket);
  --depth_;
}

/// Calls `use(bytes)` for each character of a string, as UTF-8.
template <class Use>
void JsonText::characters(Use&& use) {
  expect('"');
  while (at_ < text_.size()) {
    const std::string_view rest = text_.substr(at_);
    if (rest[0] == '"') {
      ++at_;
      return;
    }
    if (rest[0] == '\\') {
      std::string character;
      append_code_point(character, escape());
      use(character);
      continue;
    }
    if (static_cast<unsigned char>(rest[0]) < 0x20) fail("a control character in a string");
    const size_t length = code_point_length(rest);
    if (length == 0) fail("not UTF-8");
    use(rest.substr(0, length));
    at_ += length;
  }
  fail("a string does not end");
}

char32_t JsonText::escape() {
  constexpr std::string_view kNames = "\"\\/bfnrt", kCharacters = "\"\\/\b\f\n\r\t";
  ++at_;
  if (at_ < text_.size()) {
    const size_t which = kNames.find(text_[at_]);
    if (which != std::string_view::npos) {
      ++at_;
      return static_cast<unsigned char>(kCharacters[which]);
    }
  }
  // Two numbers, a high and a low surrogate, stand for a code point of more than 16 bits.
  const auto is_surrogate = [](char32_t code, char32_t first) { return code >= first && code < first + 0x400; };
  const char32_t code = hexadecimal();
  if (is_surrogate(code, 0xDC00)) fail("half of a pair of surrogates");
  if (!is_surrogate(code, 0xD800)) return code;
  const bool pair = at_ < text_.size() && text_[at_] == '\\';
  const char32_t low = pair ? (++at_, hexadecimal()) : 0;
  if (!is_surrogate(low, 0xDC00)) fail("half of a pair of surrogates");
  return 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00));
}

/// The u and four digits of an escape.
char32_t JsonText::hexadecimal() {
  constexpr std::string_view kDigits = "0123456789abcdefABCDEF";
  constexpr size_t kCount = 4;
  const std::string_view digits = text_.substr(at_, 1 + kCount);
  if (digits.size() != 1 + kCount || digits[0] != 'u') fail("no such escape");
  char32_t code = 0;
  for (const char c : digits.substr(1)) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) fail("no such escape");
    code = code * 16 + static_cast<char32_t>(digit < 16 ? digit : digit - 6);
  }
  at_ += digits.size();
  return code;
}

void JsonText::literal(std::string_view word) {
  if (!text_.substr(at_).starts_with(word)) fail("no value");
  at_ += word.size();
}

void JsonText::number() {
  const auto next = [&] { return at_ < text_.size() ? text_[at_] : '\0'; };
  if (next() == '-') ++at_;
  if (next() == '0') {
    ++at_;
  } else {
    digits();
  }
  if (next() == '.') {
    ++at_;
    digits();
  }
  if (next() != 'e' && next() != 'E') return;
  ++at_;
  if (next() == '+' || next() == '-') ++at_;
  digits();
}

void JsonText::digits() {
  const auto is_digit = [&] { return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; };
  if (!is_digit()) fail(at_ == text_.size() ? "the text ends too early" : "no value");
  while (is_digit()) ++at_;
}

}  // namespace linnet::detail
