#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace linnet::examples {

/// Bytes in binary units with one decimal: "512 B", "1.5 KiB", "2.0 GiB".
std::string format_bytes(int64_t bytes);

/// A whole number with its thousands grouped: "1,003,854".
std::string format_count(int64_t count);

/// Seconds as h:mm:ss, rounded; "-:--:--" for a time that is negative or not finite.
std::string format_duration(double seconds);

/// Puts commas between the thousands of the digits that `number` starts with (after a sign): "-12345.5" →
/// "-12,345.5".
std::string group_thousands(std::string number);

/// The columns that UTF-8 text takes in a terminal, one per code point. (Wide East Asian letters and combining marks
/// are not handled.)
int64_t display_width(std::string_view text);

/// The text cut to at most `columns` columns, with "..." at the end if it was cut and the dots fit.
std::string shorten(std::string_view text, int64_t columns);

}  // namespace linnet::examples
