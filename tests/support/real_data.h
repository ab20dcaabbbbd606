#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace linnet::test {

/// A part of the real data in $LINNET_DATA. Without it the test has nothing to do: a line says so, and it
/// returns.
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
