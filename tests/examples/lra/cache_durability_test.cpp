/// Generated sets, where a call fails that writes them.

#include <doctest/doctest.h>

#include "support/lra/cache.h"
#include "tests/support/disk/failing_calls.h"
#include "tests/support/quiet.h"

using namespace linnet;
using namespace linnet::examples;
using namespace linnet::test;
namespace fs = std::filesystem;

namespace {

const GeneratedSet kSet{.generator = "counting", .options = {{"first", 1}}, .counts = {4, 2, 1}};

/// The sequences to train with, of a set that is made where it is not in `data`.
std::vector<uint8_t> counted(const fs::path& data) {
  const Quiet quiet(STDERR_FILENO);
  Settings settings;
  settings.data = data;
  const auto make = [](const ReportMade&) {
    Examples all{{{7, 3}, std::vector<uint8_t>(21)}, std::vector<uint8_t>(7)};
    for (size_t i = 0; i < 7; ++i) all.sequences.bytes[3 * i] = static_cast<uint8_t>(i);
    return all;
  };
  return cached(settings, kSet, make)[0].sequences.bytes;
}

const std::vector<uint8_t> kCounted{0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0};

}  // namespace

TEST_CASE("cache: where any call fails that writes a set, nothing of it is left, and the next call makes it") {
  check_each_failure([](const fs::path&) {},
                     [](const fs::path& folder) {
                       const std::vector<uint8_t> bytes = counted(folder);
                       CHECK(bytes == kCounted);
                     });
}
