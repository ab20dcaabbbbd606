#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include <doctest/doctest.h>
#include <linnet/core/error.h>

#include "tests/support/files.h"

namespace linnet::test {

/// Cuts the file off at every byte, beginning with an empty file. Each time `check` gets the rest of the file and the
/// result of `read()`, which is empty if it throws an IoError. At the end the whole file is restored and read.
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
