#include <csignal>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <linnet/core/error.h>

#include "support/append.h"
#include "support/run_folder.h"
#include "tests/support/files.h"

using namespace linnet;
using linnet::test::read_bytes;
using linnet::test::TemporaryFolder;

namespace {

/// While it lives, no file of this process grows beyond `bytes`: a disk that is full.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit before_ = {};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

}  // namespace

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
