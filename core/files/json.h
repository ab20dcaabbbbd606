#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/files/utf8.h>

/// Reading JSON from files, which a stranger may have written. The header is not installed, because it needs
/// nlohmann's.

namespace linnet::detail {

/// The limit on what becomes a tree, which takes far more memory than its text.
constexpr int64_t kMaxJsonTree = int64_t{1} << 16;

/// Makes a text safe for nlohmann's parser. Line breaks outside strings become spaces, because an error's message
/// spells each of them with 8 characters.
///
/// Throws: json::other_error for a byte 0, which the parser takes for the end of the text, and for lists and objects
/// that lie more than 32 deep within each other, because nlohmann copies and prints trees by recursion.
void prepare_json(std::string& text);

/// The value of a text of at most kMaxJsonTree bytes.
///
/// Throws: json::exception for a longer text, for one that prepare_json refuses, and for one that is not JSON.
nlohmann::json parse_json(std::string text);

/// The error's message without its prefix, such as "[json.exception.out_of_range.403] ".
std::string message_of(const nlohmann::json::exception& error);

/// The value of `name` in `json` as a T. (nlohmann's own conversion truncates fractions, is undefined for a number
/// beyond T, and takes true for 1.)
///
/// Throws: json::exception if the value is missing, of another type or, for an integer T, not a whole number within
/// T.
template <typename T>
T value_of(const nlohmann::json& json, const char* name) {
  const nlohmann::json& value = json.at(name);
  const auto require = [&](bool fits, const char* needed) {
    if (fits) return;
    throw nlohmann::json::type_error::create(
        302, fmt::format("\"{}\" is {}, where {} is needed", name, shortened(value.dump()), needed), &value);
  };
  if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    require(value.is_number_unsigned() ? std::in_range<T>(value.get<uint64_t>())
                                       : value.is_number_integer() && std::in_range<T>(value.get<int64_t>()),
            "a whole number");
  }
  if constexpr (std::floating_point<T>) require(value.is_number(), "a number");
  return value.get<T>();
}

}  // namespace linnet::detail
