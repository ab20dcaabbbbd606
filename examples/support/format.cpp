#include "support/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace linnet::examples {
namespace {

bool starts_code_point(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

// The first `columns` code points.
std::string_view prefix(std::string_view text, int64_t columns) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (starts_code_point(text[i]) && columns-- == 0) return text.substr(0, i);
  }
  return text;
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  constexpr std::array<const char*, 6> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (std::abs(static_cast<double>(bytes)) < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  // 1023.95 would print as 1024.0, which the next unit writes as 1.0.
  for (; std::abs(value) >= 1023.95 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_count(int64_t count) { return group_thousands(std::to_string(count)); }

std::string format_duration(double seconds) {
  constexpr double kLongest = 1e9;  // about 32 years
  if (!(seconds >= 0 && seconds < kLongest)) return "-:--:--";
  const int64_t whole = std::llround(seconds);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string group_thousands(std::string number) {
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  const auto first = std::find_if(number.begin(), number.end(), is_digit);
  const auto last = std::find_if_not(first, number.end(), is_digit);
  const auto begin = first - number.begin();
  for (auto i = last - number.begin() - 3; i > begin; i -= 3) number.insert(static_cast<size_t>(i), 1, ',');
  return number;
}

int64_t display_width(std::string_view text) { return std::count_if(text.begin(), text.end(), starts_code_point); }

std::string shorten(std::string_view text, int64_t columns) {
  constexpr std::string_view kMark = "...";
  columns = std::max<int64_t>(columns, 0);
  if (display_width(text) <= columns) return std::string(text);
  const auto mark_width = static_cast<int64_t>(kMark.size());
  if (columns < 2 * mark_width) return std::string(prefix(text, columns));
  return std::string(prefix(text, columns - mark_width)).append(kMark);
}

}  // namespace linnet::examples
