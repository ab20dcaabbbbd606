/// Runs and data sets that lose their power at each moment: the files on the disk must be complete, and a resumed run
/// must end as one that was never stopped. (The disk is simulated; see Disk.)

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <doctest/doctest.h>

#include "tests/examples/run/kills.h"
#include "tests/examples/run/small_run.h"
#include "tests/support/disk/file_calls.h"
#include "tests/support/disk/power_loss.h"

using namespace linnet::examples;
using namespace linnet::examples::test;
using linnet::test::contents_of;
using linnet::test::Disk;
using linnet::test::FileCall;
using linnet::test::FileCalls;
using linnet::test::FolderContents;
using linnet::test::kAllLeft;
using linnet::test::Left;
using linnet::test::TemporaryFolder;
using linnet::test::write_contents;
namespace fs = std::filesystem;

namespace {

const fs::path kRun = "runs/text/run";  // in folders that the run makes

/// The step of the checkpoint, which must be complete if there is a run.
int64_t step_of(const FolderContents& contents) {
  const TemporaryFolder folder;
  write_contents(folder.path(), contents);
  return step_in(folder / kRun);
}

/// Makes or resumes the run below a folder. Returns all different contents that a loss of power at any moment may
/// leave, not counting temporary files.
std::vector<FolderContents> remains_of(const Settings& settings, const fs::path& folder) {
  Disk disk(folder);
  std::vector<FileCall> calls;
  {
    const FileCalls recorded(folder);
    train_or_resume(settings);
    calls = recorded.all();
  }
  std::mt19937_64 random(1);
  std::vector<FolderContents> all;
  std::map<FolderContents, int64_t> steps;
  int64_t flushed = -1;  // the step of the checkpoint that can no longer be lost
  for (const FileCall& call : calls) {
    disk.make(call);
    for (const Left left : kAllLeft) {
      CAPTURE(left);
      const FolderContents contents = disk.contents(left, random);
      FolderContents compared = contents;
      for (auto& [name, bytes] : compared.files) {
        if (linnet::test::is_temporary(name)) bytes.clear();
      }
      const auto [seen, is_new] = steps.try_emplace(std::move(compared));
      if (is_new) {
        seen->second = step_of(contents);
        all.push_back(contents);
      }
      CHECK(seen->second >= flushed);
      if (left == Left::nothing) flushed = seen->second;
    }
  }
  CHECK(flushed == settings.steps);
  // All files are on the disk when the run ends, so no call is missing in the record.
  CHECK(disk.contents(Left::nothing, random) == contents_of(folder));
  return all;
}

}  // namespace

TEST_CASE("a run that loses its power at any moment has a whole checkpoint, and goes on to the same bits") {
  const Workshop shop;
  train_or_resume(small_settings(shop, shop / "whole"));
  const TemporaryFolder folder;
  std::vector<FolderContents> all = remains_of(small_settings(shop, folder / kRun), folder.path());
  // The same for a run that is resumed after the power was lost in its middle.
  const TemporaryFolder again;
  const auto middle = std::ranges::find(all, int64_t{2}, step_of);
  REQUIRE(middle != all.end());
  write_contents(again.path(), *middle);
  for (FolderContents& contents : remains_of(small_settings(shop, again / kRun), again.path())) {
    all.push_back(std::move(contents));
  }
  std::set<int64_t> steps;
  for (const FolderContents& contents : all) {
    const TemporaryFolder after;
    write_contents(after.path(), contents);
    steps.insert(step_in(after / kRun));
    const FileCalls unflushed(after.path());
    train_or_resume(small_settings(shop, after / kRun));
    check_same_runs(after / kRun, shop / "whole");
  }
  CHECK(steps == std::set<int64_t>{-1, 0, 2, 4, 6});
}
