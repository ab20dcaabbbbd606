#include "tests/support/goldens.h"

#include <filesystem>

#include <doctest/doctest.h>

#include "tests/support/files.h"

namespace linnet::test {

TEST_CASE("goldens: a test compares every file") {
  namespace fs = std::filesystem;
  std::string tests;
  for (const auto& entry : fs::recursive_directory_iterator(LINNET_TEST_DATA)) {
    if (entry.path().string().ends_with("_test.cpp")) tests += read_bytes(entry.path());
  }
  int files = 0;
  for (const auto& entry : fs::directory_iterator(LINNET_TEST_DATA "/goldens")) {
    if (entry.path().extension() != ".safetensors") continue;
    ++files;
    const std::string call = "compare_goldens(\"" + entry.path().stem().string() + "\"";
    CHECK_MESSAGE(tests.find(call) != std::string::npos, "no test has ", call, ", …)");
  }
  CHECK(files >= 8);
}

}  // namespace linnet::test
