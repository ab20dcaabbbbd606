#include <fstream>
#include <sstream>

#include <doctest/doctest.h>

namespace {

std::string read(const std::string& name) {
  std::ifstream file(std::string(LINNET_SOURCE_DIR) + "/" + name);
  std::ostringstream text;
  text << file.rdbuf();
  REQUIRE(file);
  return text.str();
}

}  // namespace

TEST_CASE("the program that README.md shows is examples/mlp.cpp, which the build compiles") {
  CHECK(read("README.md").find("```cpp\n" + read("examples/mlp.cpp") + "```") != std::string::npos);
}
