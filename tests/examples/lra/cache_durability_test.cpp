/// Generated sets when a call that writes them fails, or the power is lost.

#include <random>

#include <doctest/doctest.h>

#include "support/lra/cache.h"
#include "tests/support/disk/failing_calls.h"
#include "tests/support/disk/power_loss.h"
#include "tests/support/quiet.h"

using namespace linnet;
using namespace linnet::examples;
using namespace linnet::test;
namespace fs = std::filesystem;

namespace {

const GeneratedSet kSet{.generator = "counting", .options = {{"first", 1}}, .counts = {4, 2, 1}};

/// The training sequences of a set, which is generated if it is not in `data`.
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

TEST_CASE("cache: the loss of power at any moment leaves a whole set or none") {
  const TemporaryFolder folder;
  Disk disk(folder.path());
  std::vector<FileCall> calls;
  {
    const FileCalls recorded(folder.path());
    CHECK(counted(folder.path()) == kCounted);
    calls = recorded.all();
  }
  std::mt19937_64 random(1);
  for (const FileCall& call : calls) {
    CAPTURE(call.name);
    CAPTURE(call.path.string());
    disk.make(call);
    for (const Left left : kAllLeft) {
      const TemporaryFolder after;
      write_contents(after.path(), disk.contents(left, random));
      const FileCalls unflushed(after.path());
      CHECK(counted(after.path()) == kCounted);
      CHECK(contents_of(after.path()) == contents_of(folder.path()));
    }
  }
  CHECK(disk.contents(Left::nothing, random) == contents_of(folder.path()));
}
