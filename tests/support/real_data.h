#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace linnet::test {

/// The path of `name` in $LINNET_DATA. If it is missing, prints that the test was skipped; the test then returns.
inline std::optional<std::filesystem::path> real_data(const std::string& name) {
  if (const char* folder = std::getenv("LINNET_DATA")) {
    if (const std::filesystem::path path = std::filesystem::path(folder) / name; std::filesystem::exists(path)) {
      return path;
    }
  }
  std::printf("SKIPPED: no %s in LINNET_DATA\n", name.c_str());
  return std::nullopt;
}

}  // namespace linnet::test
