#pragma once

#include <charconv>
#include <string_view>

/// Numbers in files of text. Internal to nn.

namespace linnet::detail {

/// std::from_chars for a whole number.
template <class T>
std::from_chars_result from_chars(std::string_view text, T& value) {
  return std::from_chars(text.data(), text.data() + text.size(), value);
}

/// std::from_chars, but a number that is too near to 0 for a double is 0 with its sign, as in NumPy and pandas. So
/// `result_out_of_range` means that a number is too large.
std::from_chars_result from_chars(std::string_view text, double& value);

}  // namespace linnet::detail
