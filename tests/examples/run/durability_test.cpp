#include <algorithm>
#include <set>

#include <doctest/doctest.h>

#include "tests/examples/run/small_run.h"
#include "tests/support/disk/file_calls.h"

using namespace linnet;
using namespace linnet::examples::test;
using linnet::test::FileCall;
using linnet::test::FileCalls;

namespace {

namespace fs = std::filesystem;

/// Lines are appended to these files during the run; a resumed run appends those after its checkpoint.
const std::set<std::string> kLogs{"metrics.jsonl", "train_loss.csv"};

/// The calls that decide what survives a power cut.
std::vector<FileCall> lasting(std::vector<FileCall> calls) {
  std::erase_if(calls, [](const FileCall& call) {
    return call.name == "open" || call.name == "ftruncate" || call.name == "close";
  });
  return calls;
}

fs::path temporary_of(const fs::path& path) { return path.parent_path() / ("." + path.filename().string() + ".tmp"); }

}  // namespace

TEST_CASE(
    "a training run flushes every file before it gets its name, its folder after, and logs before checkpoints") {
  const Workshop shop;
  examples::Settings settings = small_settings(shop, shop / "run");
  settings.steps = 20, settings.eval_every = 10, settings.checkpoint_every = 5;
  settings.profile = true;
  fs::create_directory(settings.out);
  std::vector<FileCall> calls;
  {
    const FileCalls recorded(settings.out);
    train_or_resume(settings);
    calls = lasting(recorded.all());
  }

  std::vector<std::string> renamed;
  std::set<fs::path> unflushed;  // logs
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string& name = calls[i].name;
    const fs::path& path = calls[i].path;
    CAPTURE(name);
    CAPTURE(path.string());
    if (name == "rename") {
      renamed.push_back(path.filename());
      if (renamed.back() == "checkpoint.safetensors") CHECK(unflushed.empty());
      REQUIRE(i > 0);
      CHECK(calls[i - 1] == FileCall{"fsync", temporary_of(path)});
      REQUIRE(i + 1 < calls.size());
      CHECK(calls[i + 1] == FileCall{"fsync", settings.out});
    } else if (name == "write" && kLogs.contains(path.filename())) {
      unflushed.insert(path);
    } else if (name == "write") {
      CHECK(path.filename().string().ends_with(".tmp"));
    } else if (name == "fsync") {
      unflushed.erase(path);
    }
  }
  for (const std::string& name : names_in(settings.out)) {
    CAPTURE(name);
    CHECK(std::ranges::count(renamed, name) > 0);
  }
  CHECK(std::ranges::count(renamed, "checkpoint.safetensors") == 1 + 4 + 1);
  CHECK(std::ranges::count(renamed, "loss.png") == 1);
  CHECK(std::ranges::count(renamed, "trace.json") == 1);
  // A folder with config.json is a run, which can be resumed from its checkpoint.
  const auto place = [&](const char* name) { return std::ranges::find(renamed, name) - renamed.begin(); };
  for (const char* before : {"checkpoint.safetensors", "metrics.jsonl", "train_loss.csv"}) {
    CHECK(place(before) < place("config.json"));
  }
  CHECK(place("config.json") < place("model.safetensors"));
}
