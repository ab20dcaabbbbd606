#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace linnet::detail {

/// What some editors write at the beginning of a UTF-8 file. It does not belong to the text.
inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The number of bytes of the UTF-8 code point at the start of `text`; 0 if there is none.
size_t code_point_length(std::string_view text);

/// The number of bytes before the first one that is not UTF-8; the size of `text` if all of it is UTF-8.
size_t utf8_bytes(std::string_view text);

/// The code point with exactly these UTF-8 bytes.
char32_t code_point(std::string_view bytes);

/// Appends a code point to `text`, as UTF-8.
void append_code_point(std::string& text, char32_t code);

/// The text as a message shows it: at most its first 100 bytes, in whole code points, and "…" if it is longer. This
/// is needed because names and values from files may have any length.
std::string shortened(std::string_view text);

}  // namespace linnet::detail
