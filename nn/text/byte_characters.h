#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <linnet/core/files/utf8.h>

namespace linnet::detail {

/// The character that represents each byte in `vocab.json` and `merges.txt`: GPT-2's `bytes_to_unicode`. A byte that
/// is a visible character of Latin-1 represents itself. The others are U+0100, U+0101, … in their order, so that the
/// files have no blanks or control characters in a token.
constexpr std::array<char32_t, 256> byte_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (char32_t byte = 0; byte < characters.size(); ++byte) {
    const bool is_visible = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
    characters[byte] = is_visible ? byte : next++;
  }
  return characters;
}

/// The characters that represent `bytes` in the files, as UTF-8.
inline std::string spelled(std::string_view bytes) {
  static constexpr auto kCharacters = byte_characters();
  std::string text;
  for (const char byte : bytes) append_code_point(text, kCharacters[static_cast<unsigned char>(byte)]);
  return text;
}

}  // namespace linnet::detail
