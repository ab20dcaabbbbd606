#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/files.h"

/// The compiler that built the tests, for files for which tests/CMakeLists.txt defines LINNET_TEST_COMPILER.

namespace linnet::test {

inline bool has_compiler() { return std::filesystem::exists(LINNET_TEST_COMPILER); }

struct Compiled {
  bool ok;
  std::string messages;
};

/// Compiles a C++ file against linnet's headers without generating code.
inline Compiled compile(const std::filesystem::path& source, const std::string& flags = "") {
  const TemporaryFolder folder;
  const std::filesystem::path log = folder / "messages.txt";
  const std::string command = "'" LINNET_TEST_COMPILER "' -std=c++20 -fsyntax-only " + flags +
                              " -I'" LINNET_TEST_INCLUDE "' -x c++ '" + source.string() + "' > '" + log.string() +
                              "' 2>&1";
  const bool ok = std::system(command.c_str()) == 0;
  return {ok, read_bytes(log)};
}

}  // namespace linnet::test
