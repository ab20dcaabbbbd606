#include <doctest/doctest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "tests/support/files.h"
#include "tests/support/sources.h"

// The code that computes an equation of a paper has a tag such as [FAST eq.26], so that one search finds it. FAST is
// Gerami et al. 2024, Fastformer is Wu et al. 2021, Vaswani is "Attention Is All You Need" (2017). The other
// equations of these papers are definitions, properties and derivations.

namespace {

struct Equations {
  const char* paper;
  std::set<int> numbers;
};

struct Place {
  std::vector<std::string> folders;
  std::vector<Equations> computed;
};

/// The tags must be in the plain code of ops, and in the kernels of each device.
const std::vector<Place> kPlaces{
    {{"ops/attention", "ops/fastmax", "ops/fastformer"},
     {{"Vaswani", {1}},
      {"FAST", {5, 6, 7, 8, 9, 11, 12, 19, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35}},
      {"Fastformer", {3, 4, 5, 6}}}},
    {{"ops/cpu"},
     {{"Vaswani", {1}},
      {"FAST", {5, 6, 7, 8, 12, 15, 19, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35}},
      {"Fastformer", {3, 4, 5, 6}}}},
    {{"cuda"},
     {{"Vaswani", {1}},
      {"FAST", {5, 6, 7, 8, 12, 15, 19, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35}},
      {"Fastformer", {3, 4, 5, 6}}}},
};

std::string code_in(const std::vector<std::string>& folders) {
  std::string code;
  for (const std::string& file : linnet::test::files_below(folders)) {
    if (!file.ends_with(".md")) code += linnet::test::read_bytes(std::filesystem::path(LINNET_SOURCE_DIR) / file);
  }
  return code;
}

}  // namespace

TEST_CASE("equations: each has a tag where it is computed, on each device") {
  for (const Place& place : kPlaces) {
    const std::string code = code_in(place.folders);
    for (const auto& [paper, numbers] : place.computed) {
      for (const int number : numbers) {
        const std::string tag = "[" + std::string(paper) + " eq." + std::to_string(number) + "]";
        CHECK_MESSAGE(code.find(tag) != std::string::npos, place.folders.front(), " has no ", tag);
      }
    }
  }
}
