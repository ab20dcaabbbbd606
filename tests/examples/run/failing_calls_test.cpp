/// Runs in which one of the calls that write fails. The error must say what to do, files must be complete, and the
/// resumed run must end with the same bits.

#include <cerrno>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "support/plot/image_sheet.h"
#include "tests/examples/run/kills.h"
#include "tests/examples/run/small_run.h"
#include "tests/support/disk/failing_calls.h"

using namespace linnet;
using namespace linnet::examples;
using namespace linnet::examples::test;
using linnet::test::check_message;
using linnet::test::FileCall;
using linnet::test::FileCalls;
using linnet::test::OneFailure;
using linnet::test::read_bytes;
using linnet::test::TemporaryFolder;
namespace fs = std::filesystem;

namespace {

/// The settings of a run that writes all files except those of --profile.
Settings run_in(const Workshop& shop, const fs::path& folder) {
  Settings settings = small_settings(shop, folder / "run");
  settings.tensorboard = true;
  return settings;
}

/// The numbers of the first, the middle and the last of the calls of each name and path; of all with $LINNET_KILLS.
std::set<size_t> chosen(const std::vector<FileCall>& calls) {
  std::map<std::pair<std::string, fs::path>, std::vector<size_t>> alike;
  for (size_t i = 0; i < calls.size(); ++i) alike[{calls[i].name, calls[i].path}].push_back(i);
  std::set<size_t> numbers;
  for (const auto& [call, all] : alike) {
    numbers.insert({all.front(), all[all.size() / 2], all.back()});
    if (wanted_kills(0) > 0) numbers.insert(all.begin(), all.end());
  }
  return numbers;
}

bool ends_with_a_line(const std::string& text) { return text.empty() || text.back() == '\n'; }

}  // namespace

TEST_CASE("a run in which a call fails that writes says what to do, and goes on to the same bits") {
  const Workshop shop;
  train_or_resume(run_in(shop, shop / "whole"));
  const TemporaryFolder recorded_in;
  std::vector<FileCall> calls;
  {
    FileCalls recorded(recorded_in.path());
    recorded.shorten_writes(linnet::test::kLongestWrite);
    train_or_resume(run_in(shop, recorded_in.path()));
    calls = recorded.all();
  }
  int errors = 0;
  for (const size_t number : chosen(calls)) {
    const int error = ++errors % 2 == 0 ? EIO : ENOSPC;
    CAPTURE(error);
    const TemporaryFolder folder;
    const fs::path run = folder / "run";
    const OneFailure one(folder.path(), number, error, [&] { train_or_resume(run_in(shop, folder.path())); });
    REQUIRE(one.failed.size() == 1);
    CAPTURE(one.failed[0].name);
    CAPTURE(one.failed[0].path.string());
    if (one.said.empty()) {
      CHECK(linnet::test::may_be_ignored(one.failed[0]));
    } else {
      check_message(one.said, folder.path(), error);
      const bool has_trained = fs::exists(run / "train_loss.csv") && read_bytes(run / "train_loss.csv").size() > 10;
      if (has_trained) CHECK(one.said.find("; then go on with: ") != std::string::npos);
      if (fs::exists(run)) {
        for (const std::string& name : names_in(run)) CHECK_FALSE(linnet::test::is_temporary(name));
        for (const char* const log : {"metrics.jsonl", "train_loss.csv"}) {
          if (fs::exists(run / log)) CHECK(ends_with_a_line(read_bytes(run / log)));
        }
      }
    }
    step_in(run);  // checks that the checkpoint is complete, if there is one
    const FileCalls unflushed(folder.path());
    train_or_resume(run_in(shop, folder.path()));
    check_same_runs(run, shop / "whole/run");
  }
  CHECK(errors > 60);
}

TEST_CASE("a run whose calls are all interrupted once, and whose writes are short, is one like any other") {
  const Workshop shop;
  train_or_resume(run_in(shop, shop / "whole"));
  const TemporaryFolder folder;
  FileCalls calls(folder.path());
  calls.interrupt_each();
  calls.shorten_writes(50);
  train_or_resume(run_in(shop, folder.path()));
  check_same_runs(folder / "run", shop / "whole/run");
  CHECK(std::ranges::count(calls.all(), EINTR, &FileCall::error) > 100);
}

TEST_CASE("a picture: where any call fails that writes it, the old one stays") {
  const auto draw = [](const fs::path& folder, double grey) {
    write_png(ImageSheet{.images = full({1, 2, 3}, grey)}, folder / "sheet.png");
  };
  linnet::test::check_each_failure([&](const fs::path& folder) { draw(folder, 0.2); },
                                   [&](const fs::path& folder) { draw(folder, 0.8); });
}
