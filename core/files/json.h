#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/files/utf8.h>

/// Reading JSON from untrusted files. This header is not installed, because it includes nlohmann's header.

namespace linnet::detail {

/// The most bytes of text that are parsed into a tree. A tree takes far more memory than its text.
constexpr int64_t kMaxJsonTree = int64_t{1} << 16;

/// Makes JSON text safe for nlohmann's parser. Line breaks outside strings become spaces, because an error message
/// writes each of them with 8 characters.
///
/// Throws: json::other_error for a byte 0, at which the parser would stop reading, and for lists and objects that are
/// nested more than 32 deep, because nlohmann copies and prints trees by recursion.
void prepare_json(std::string& text);

/// Parses a text of at most kMaxJsonTree bytes.
///
/// Throws: json::exception for a longer text, for a text that prepare_json refuses, and for a text that is not JSON.
nlohmann::json parse_json(std::string text);

/// The error's message without its prefix, such as "[json.exception.out_of_range.403] ".
std::string message_of(const nlohmann::json::exception& error);

/// The value of `name` in `json` as a T. (nlohmann's own conversion truncates fractions, is undefined for a number
/// out of T's range, and converts true to 1.)
///
/// Throws: json::exception if the value is missing, has another type or, for an integer T, is not a whole number in
/// T's range.
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
