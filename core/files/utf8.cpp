#include <linnet/core/files/utf8.h>

namespace linnet::detail {

size_t code_point_length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  size_t length = 1;
  if (byte(0) >= 0xF5 || (byte(0) >= 0x80 && byte(0) < 0xC2)) return 0;
  if (byte(0) >= 0xC2) length = byte(0) < 0xE0 ? 2 : byte(0) < 0xF0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Refuses overlong forms, surrogates, and codes beyond U+10FFFF.
  if (length >= 3) {
    const unsigned head = byte(0) * 256U + byte(1);
    if (head < 0xE0A0 || (head >= 0xEDA0 && head < 0xEE00) || (head >= 0xF000 && head < 0xF090) || head >= 0xF490)
      return 0;
  }
  return length;
}

size_t utf8_bytes(std::string_view text) {
  size_t at = 0;
  while (const size_t length = code_point_length(text.substr(at))) at += length;
  return at;
}

char32_t code_point(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  char32_t code = bytes.size() == 1 ? first : first & (0x7FU >> bytes.size());
  for (const char next : bytes.substr(1)) code = code << 6 | (static_cast<unsigned char>(next) & 0x3FU);
  return code;
}

void append_code_point(std::string& text, char32_t code) {
  const int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr char32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
  text += static_cast<char>(kFirst[more] | code >> 6 * more);
  for (int i = more - 1; i >= 0; --i) text += static_cast<char>(0x80 | (code >> 6 * i & 0x3F));
}

std::string shortened(std::string_view text) {
  constexpr size_t kMost = 100;
  if (text.size() <= kMost) return std::string(text);
  size_t end = kMost;
  while (end > kMost - 3 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // do not cut a code point
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace linnet::detail
