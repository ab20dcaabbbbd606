#include <linnet/nn/data/from_chars.h>

#include <algorithm>
#include <cstdint>

namespace linnet::detail {
namespace {

/// Whether a decimal number other than 0 is below 1, without its sign.
bool is_below_one(std::string_view number) {
  const size_t e = std::min(number.find_first_of("eE"), number.size());
  const std::string_view digits = number.substr(0, e);
  std::string_view power = number.substr(std::min(e + 1, number.size()));
  if (power.starts_with('+')) power.remove_prefix(1);
  int32_t exponent = 0;
  if (from_chars(power, exponent).ec == std::errc::result_out_of_range) return power.starts_with('-');
  const size_t point = std::min(digits.find('.'), digits.size()), first = digits.find_first_of("123456789");
  const auto before_point = static_cast<int64_t>(point) - static_cast<int64_t>(first);
  // The first digit has the place value 10^(before_point - 1), or 10^before_point if it follows the point.
  return before_point + (first < point ? -1 : 0) + exponent < 0;
}

}  // namespace

std::from_chars_result from_chars(std::string_view text, double& value) {
  std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<size_t>(result.ptr - text.data());
  if (result.ec == std::errc::result_out_of_range && is_below_one(text.substr(0, length))) {
    value = text.starts_with('-') ? -0.0 : 0.0;
    result.ec = std::errc();
  }
  return result;
}

}  // namespace linnet::detail
