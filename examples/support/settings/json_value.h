#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace linnet::examples {

/// What the JSON text of a file holds, which may be anybody's. Throws nlohmann's exceptions for one that is no JSON,
/// and for one too large or too deep for any that a program of ours writes: trees of such take far more memory than
/// their texts, and nlohmann goes through them by recursion.
nlohmann::json parse_json(std::string_view text);

/// The value of `name` in `json` as a T. Throws nlohmann's exceptions where it is missing, of another type, or no
/// whole number within T where T is an integer. (nlohmann's own conversion cuts fractions off, and what it makes of a
/// number beyond T is undefined.)
template <typename T>
T value_of(const nlohmann::json& json, const char* name) {
  const nlohmann::json& value = json.at(name);
  if constexpr (std::integral<T> && !std::same_as<T, bool>) {
    const bool fits = value.is_number_unsigned()
                          ? std::in_range<T>(value.get<uint64_t>())
                          : value.is_number_integer() && std::in_range<T>(value.get<int64_t>());
    if (!fits) {
      throw nlohmann::json::type_error::create(
          302, fmt::format("{} is {}, where a whole number is needed", name, value.dump()), &value);
    }
  }
  return value.get<T>();
}

}  // namespace linnet::examples
