#include <doctest/doctest.h>

#include <linnet/core/error.h>

#include "support/files.h"
#include "support/run_folder.h"
#include "tests/examples/full_disk.h"
#include "tests/support/files.h"

using namespace linnet;
using linnet::examples::test::FullDisk;
using linnet::test::read_bytes;
using linnet::test::TemporaryFolder;
using linnet::test::write_bytes;

TEST_CASE("append: all or nothing, when the disk gets full in the middle") {
  const TemporaryFolder folder;
  const auto path = folder / "metrics.jsonl";
  examples::append(path, "the first line\n");
  std::string message;
  {
    const FullDisk disk(20);
    try {
      examples::append(path, "the second line\n");
    } catch (const IoError& error) {
      message = error.what();
    }
  }
  CHECK(message.find("metrics.jsonl': File too large; free some space") != std::string::npos);
  CHECK(read_bytes(path) == "the first line\n");
  examples::append(path, "another\n");
  CHECK(read_bytes(path) == "the first line\nanother\n");
}

TEST_CASE("a run asks for the room that it needs before it begins") {
  const TemporaryFolder folder;
  examples::Settings settings;
  settings.task = "shakespeare";
  settings.out = folder / "run";
  const examples::RunFolder run(settings, "no data");
  CHECK_NOTHROW(run.require_room(1));
  CHECK_THROWS_WITH_AS(run.require_room(int64_t{1} << 60), doctest::Contains("and the run writes up to 1.0 EiB"),
                       IoError);
}

TEST_CASE("a run that begins leaves nothing of one whose config.json was removed to be taken for its own") {
  const TemporaryFolder folder;
  examples::Settings settings;
  settings.task = "shakespeare";
  settings.out = folder / "run";
  examples::RunFolder run(settings, "no data");
  write_bytes(folder / "run/metrics.jsonl", "{}\n");
  write_bytes(folder / "run/model.safetensors", "weights");
  run.begin();
  run.log({.step = 0});
  CHECK(read_bytes(folder / "run/metrics.jsonl").starts_with("{\"accuracy\""));
  CHECK_THROWS_WITH_AS(examples::check_is_trained(folder / "run"), doctest::Contains("its run was stopped"), IoError);
}
