#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <doctest/doctest.h>
#include <linnet/core/error.h>

#include "tests/support/files.h"

namespace linnet::test {

/// Cuts the file off at every byte, from an empty one on. Each time `check` gets what is left of the file and what
/// `read()` makes of it, which is nothing where it throws an IoError. Then the file is whole again, and is read.
template <class Read, class Check>
void cut_everywhere(const std::filesystem::path& path, const Read& read, const Check& check) {
  const std::string whole = read_bytes(path);
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const std::string part = whole.substr(0, size);
    write_bytes(path, part);
    std::optional<decltype(read())> content;
    try {
      content.emplace(read());
    } catch (const IoError&) {
    }
    check(part, content);
  }
  write_bytes(path, whole);
  read();
}

}  // namespace linnet::test
