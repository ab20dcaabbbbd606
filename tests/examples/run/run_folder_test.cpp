#include <doctest/doctest.h>
#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/core/files/safetensors.h>

#include "support/files.h"
#include "support/run/run_folder.h"
#include "tests/examples/run/full_disk.h"
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

TEST_CASE("a folder without config.json whose files a run would replace: refused, and the files are left alone") {
  const TemporaryFolder folder;
  examples::Settings settings;
  settings.task = "shakespeare";
  settings.out = folder.path();
  const auto taken = [&] {
    try {
      examples::settle_run(settings);
      const examples::RunFolder run(settings, "no data");
    } catch (const IoError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(taken() == "");
  write_bytes(folder / "notes.txt", "mine");
  CHECK(taken() == "");
  const auto refuses = [&](const std::string& name, const std::string& bytes) {
    CAPTURE(name);
    write_bytes(folder / name, bytes);
    CHECK(taken() == fmt::format("--out {} has no config.json, but a {}, which a run there would replace; choose "
                                 "another folder, or move that file away",
                                 folder.path().string(), name));
    CHECK(read_bytes(folder / name) == bytes);
    std::filesystem::remove(folder / name);
  };
  for (const char* name :
       {"metrics.jsonl", "model.safetensors", "checkpoint.safetensors", "samples.txt", "loss.png"}) {
    refuses(name, "mine");
  }
  refuses("checkpoint.safetensors", "");
  // The checkpoint of a run whose config.json was removed.
  write_safetensors(folder / "other", {.tensors = {}, .metadata = {{"step", "20"}}});
  refuses("checkpoint.safetensors", read_bytes(folder / "other"));
  write_safetensors(folder / "other", {.tensors = {}, .metadata = {{"step", "0"}}});
  refuses("checkpoint.safetensors", read_bytes(folder / "other"));  // it lacks a checkpoint's other numbers

  std::filesystem::create_directory(folder / "metrics.jsonl");
  CHECK(taken() != "");
  std::filesystem::remove(folder / "metrics.jsonl");

  write_bytes(folder / "profile.txt", "of bench step");
  CHECK(taken() == "");
  settings.profile = true;
  refuses("profile.txt", "mine");
  refuses("trace.json", "mine");
  settings.task = "mnist";
  write_bytes(folder / "samples.txt", "mine");
  CHECK(taken() == "");
}

TEST_CASE("a run folder belongs to one run at a time") {
  const TemporaryFolder folder;
  examples::Settings settings;
  settings.task = "shakespeare";
  settings.out = folder / "run";
  {
    examples::RunFolder run(settings, "no data");
    const auto says = doctest::Contains("a run is under way in --out ");
    CHECK_THROWS_WITH_AS(examples::RunFolder(settings, "no data"), says, IoError);
    CHECK_THROWS_WITH_AS(examples::settle_run(settings), says, IoError);
    run.begin();
    settings.resume = true;
    CHECK_THROWS_WITH_AS(examples::RunFolder(settings, "no data"), says, IoError);
    CHECK_THROWS_WITH_AS(examples::settle_run(settings), says, IoError);
  }
  CHECK_NOTHROW(examples::settle_run(settings));
  CHECK_NOTHROW(examples::RunFolder(settings, "no data"));
}
