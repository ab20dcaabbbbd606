#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace linnet::examples {

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
