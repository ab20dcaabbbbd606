#include <linnet/core/files/atomic_file.h>

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <random>
#include <thread>

#include <linnet/core/error.h>

#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// While it exists, no file can grow beyond 4 bytes, as on a full disk.
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

/// Writes the file again and again, each time with another letter, until it is killed.
[[noreturn]] void write_letters(const std::filesystem::path& path) {
  for (char letter = 'a';; letter = letter == 'z' ? 'a' : static_cast<char>(letter + 1)) {
    AtomicFile file(path);
    const std::string part(1 << 14, letter);
    for (int i = 0; i < 16; ++i) file.write(part.data(), std::ssize(part));
    file.commit();
  }
}

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
  CHECK(folder.file_count() == 1);
  CHECK_THROWS_WITH_AS(AtomicFile(folder / "no/a"), doctest::Contains("No such file or directory; check that"),
                       IoError);
  CHECK_THROWS_AS(AtomicFile(folder.path()), IoError);
}

TEST_CASE("AtomicFile: one writer at a time; a killed one's leftovers go to the next") {
  const TemporaryFolder folder;
  write_bytes(folder / ".a.tmp", "what a killed process left, which is longer");
  {
    AtomicFile file(folder / "a");
    CHECK_THROWS_WITH_AS(AtomicFile(folder / "a"), doctest::Contains("another program is writing it; wait"), IoError);
    CHECK_NOTHROW(AtomicFile(folder / "b"));
    file.write("one", 3);
    file.commit();
    CHECK_NOTHROW(AtomicFile(folder / "a"));
  }
  CHECK(read_bytes(folder / "a") == "one");
  CHECK(folder.file_count() == 1);
}

TEST_CASE("AtomicFile: no descriptor stays open, however a file ends") {
  const TemporaryFolder folder;
  const auto open_descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = open_descriptors();
  {
    AtomicFile committed(folder / "a"), abandoned(folder / "b");
    committed.commit();
    CHECK_THROWS_WITH_AS(AtomicFile(folder / "b"), doctest::Contains("another program is writing it"), IoError);
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("AtomicFile: a process killed at any moment leaves a whole file") {
  const TemporaryFolder folder;
  const auto path = folder / "letters";
  std::mt19937 random(std::random_device{}());
  std::uniform_int_distribution<int> microseconds(0, 10'000);
  int written = 0;
  for (int i = 0; i < 30; ++i) {
    const pid_t writer = ::fork();
    if (writer == 0) write_letters(path);
    REQUIRE(writer > 0);
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds(random)));
    ::kill(writer, SIGKILL);
    ::waitpid(writer, nullptr, 0);
    if (!std::filesystem::exists(path)) continue;
    ++written;
    const std::string content = read_bytes(path);
    CHECK(content.size() == 1 << 18);
    CHECK(content.find_first_not_of(content.front()) == std::string::npos);
    CHECK(folder.file_count() <= 2);
  }
  CHECK(written > 0);
}

TEST_CASE("AtomicFile: the permissions of the file whose place it takes stay") {
  const TemporaryFolder folder;
  write_bytes(folder / "a", "old");
  const auto mode = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;
  std::filesystem::permissions(folder / "a", mode);
  AtomicFile file(folder / "a");
  file.write("new", 3);
  file.commit();
  CHECK(read_bytes(folder / "a") == "new");
  CHECK(std::filesystem::status(folder / "a").permissions() == mode);
}

TEST_CASE("AtomicFile: a symbolic link stays, and the file that it points to is replaced") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "data");
  write_bytes(folder / "data/a", "old");
  std::filesystem::create_symlink("data/a", folder / "latest");
  AtomicFile file(folder / "latest");
  file.write("new", 3);
  file.commit();
  CHECK(std::filesystem::is_symlink(folder / "latest"));
  CHECK(read_bytes(folder / "data/a") == "new");
}

TEST_CASE("AtomicFile: a symbolic link stays also if the file that it points to is not there yet") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "data");
  std::filesystem::create_symlink("data/next", folder / "latest");
  std::filesystem::create_symlink(folder / "data/a", folder / "data/next");
  AtomicFile file(folder / "latest");
  file.write("new", 3);
  file.commit();
  CHECK(std::filesystem::is_symlink(folder / "latest"));
  CHECK(std::filesystem::is_symlink(folder / "data/next"));
  CHECK(read_bytes(folder / "data/a") == "new");
}

TEST_CASE("AtomicFile: symbolic links that lead round in a circle are an error") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("a", folder / "a");
  std::filesystem::create_symlink("c", folder / "b");
  std::filesystem::create_symlink("b", folder / "c");
  for (const char* const name : {"a", "b"}) {
    CHECK_THROWS_WITH_AS(AtomicFile(folder / name), doctest::Contains("round in a circle; remove them"), IoError);
  }
}

TEST_CASE("AtomicFile: a read-only file that a killed process left goes to the next") {
  const TemporaryFolder folder;
  using std::filesystem::perms;
  std::filesystem::permissions(folder.path(), perms::all);
  const pid_t writer = ::fork();
  if (writer == 0) {  // in a process of its own, because it gives up the right to write to every file
    if (::geteuid() == 0 && ::seteuid(65'534) != 0) ::_exit(1);
    write_bytes(folder / "a", "old");
    write_bytes(folder / ".a.tmp", "left");
    for (const char* const name : {"a", ".a.tmp"}) std::filesystem::permissions(folder / name, perms::owner_read);
    try {
      AtomicFile file(folder / "a");
      file.write("new", 3);
      try {
        const AtomicFile second(folder / "a");
      } catch (const IoError& error) {
        const bool is_in_use = std::string(error.what()).find("another program is writing it") != std::string::npos;
        if (!is_in_use) ::_exit(2);
        file.commit();
        ::_exit(0);
      }
      ::_exit(3);
    } catch (const IoError&) {
      ::_exit(4);
    }
  }
  REQUIRE(writer > 0);
  int status = 0;
  ::waitpid(writer, &status, 0);
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(read_bytes(folder / "a") == "new");
  CHECK(folder.file_count() == 1);
}
