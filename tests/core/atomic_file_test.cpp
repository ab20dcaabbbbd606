#include <linnet/core/atomic_file.h>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <csignal>
#include <iterator>

#include <linnet/core/error.h>

#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// While one lives, files end at 4 bytes: what a full disk looks like.
class SmallFiles {
 public:
  SmallFiles() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{4, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int);
};

}  // namespace

TEST_CASE("AtomicFile: the name shows the old file until commit, and still does without one") {
  const TemporaryFolder folder;
  const auto content = [&] { return read_bytes(folder / "a"); };
  {
    AtomicFile file(folder / "a");
    file.write("one", 3);
    CHECK_FALSE(std::filesystem::exists(folder / "a"));
    file.commit();
    CHECK(content() == "one");
  }
  {
    AtomicFile file(folder / "a");
    file.write("two", 3);
    CHECK(content() == "one");
  }
  CHECK(content() == "one");
  {
    const SmallFiles full;
    AtomicFile file(folder / "a");
    CHECK_THROWS_WITH_AS(file.write("too long", 8), doctest::Contains("File too large; free some space"), IoError);
  }
  CHECK(content() == "one");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), std::filesystem::directory_iterator()) ==
        1);
  CHECK_THROWS_WITH_AS(AtomicFile(folder / "no/a"), doctest::Contains("No such file or directory; check that"),
                       IoError);
  CHECK_THROWS_AS(AtomicFile(folder.path()), IoError);
}
