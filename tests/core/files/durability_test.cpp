/// A file must be on the disk before it gets its name, and the name must be on the disk before the writer continues.
/// The tests also let calls fail and simulate a loss of power.

#include <cerrno>
#include <cstring>
#include <functional>
#include <set>

#include <fcntl.h>

#include <doctest/doctest.h>
#include <linnet/core/error.h>
#include <linnet/core/files/atomic_file.h>
#include <linnet/core/files/npy.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/ops/array/creation.h>

#include "tests/support/disk/failing_calls.h"
#include "tests/support/disk/file_calls.h"
#include "tests/support/disk/power_loss.h"
#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// A folder that has the old file already.
struct Replaced {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "a", temporary = folder / ".a.tmp";

  Replaced() { write_bytes(path, "old"); }

  /// Replaces it by "new and longer", written in two parts.
  void replace() const {
    AtomicFile file(path);
    file.write("new and", 7);
    file.write(" longer", 7);
    file.commit();
  }
};

/// The calls that decide what survives a power cut.
std::vector<FileCall> lasting(std::vector<FileCall> calls) {
  std::erase_if(calls, [](const FileCall& call) {
    return call.name == "open" || call.name == "ftruncate" || call.name == "close";
  });
  return calls;
}

}  // namespace

TEST_CASE("AtomicFile: bytes are flushed before they get the name, and the folder after") {
  const Replaced at;
  const FileCalls calls(at.folder.path());
  at.replace();
  CHECK(lasting(calls.all()) == std::vector<FileCall>{{"write", at.temporary},
                                                      {"write", at.temporary},
                                                      {"fsync", at.temporary},
                                                      {"rename", at.path},
                                                      {"fsync", at.folder.path()}});
  CHECK(read_bytes(at.path) == "new and longer");
}

TEST_CASE("write_safetensors: a file of several tensors is flushed before it gets its name") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "a.safetensors", temporary = folder / ".a.safetensors.tmp";
  const FileCalls calls(folder.path());
  write_safetensors(path, {.tensors = {{"a", ones({3})}, {"b", ones({4, 5})}}, .metadata = {}});
  const std::vector<FileCall> done = lasting(calls.all());
  REQUIRE(done.size() > 3);
  CHECK(std::vector(done.end() - 3, done.end()) ==
        std::vector<FileCall>{{"fsync", temporary}, {"rename", path}, {"fsync", folder.path()}});
  CHECK(std::all_of(done.begin(), done.end() - 3,
                    [&](const FileCall& c) { return c == FileCall{"write", temporary}; }));
}

TEST_CASE("AtomicFile: a call that fails says why, and leaves the old file and nothing else") {
  for (const int error : {ENOSPC, EIO, EDQUOT, EROFS}) {
    for (const std::string name : {"open", "ftruncate", "write", "fsync", "rename"}) {
      CAPTURE(name);
      CAPTURE(error);
      const Replaced at;
      {
        FileCalls calls(at.folder.path());
        calls.fail({name, name == "rename" ? at.path : at.temporary}, error);
        const std::string says = "cannot write '" + at.path.string() + "': " + std::strerror(error) + "; ";
        CHECK_THROWS_WITH_AS(at.replace(), doctest::Contains(says.c_str()), IoError);
      }
      CHECK(read_bytes(at.path) == "old");
      CHECK(at.folder.file_count() == 1);
      CHECK_NOTHROW(at.replace());
    }
  }
}

TEST_CASE("AtomicFile: a folder that cannot be flushed is an error, one of a file system without that is none") {
  for (const auto& [name, error] : {std::pair{"fsync", EIO}, {"fsync", ENOSPC}, {"open", EIO}}) {
    const Replaced at;
    FileCalls calls(at.folder.path());
    calls.fail({name, at.folder.path()}, error);
    CHECK_THROWS_WITH_AS(at.replace(), doctest::Contains(std::strerror(error)), IoError);
    CHECK(at.folder.file_count() == 1);
  }
  for (const auto& [name, error] : {std::pair{"fsync", EINVAL}, {"open", EACCES}}) {
    const Replaced at;
    FileCalls calls(at.folder.path());
    calls.fail({name, at.folder.path()}, error);
    CHECK_NOTHROW(at.replace());
    CHECK(read_bytes(at.path) == "new and longer");
  }
}

TEST_CASE("AtomicFile: a signal interrupts no call for good, and short writes go on") {
  const Replaced at;
  FileCalls calls(at.folder.path());
  for (const char* name : {"open", "ftruncate", "write", "fsync"}) calls.fail({name, at.temporary}, EINTR, 2);
  calls.fail({"open", at.folder.path()}, EINTR);
  calls.fail({"fsync", at.folder.path()}, EINTR);
  calls.shorten_writes(3);
  CHECK_NOTHROW(at.replace());
  CHECK(read_bytes(at.path) == "new and longer");
  CHECK(at.folder.file_count() == 1);
  const std::vector<FileCall> done = lasting(calls.all());
  REQUIRE(done.size() > 3);
  const size_t renamed = static_cast<size_t>(std::ranges::find(done, FileCall{"rename", at.path}) - done.begin());
  REQUIRE(renamed < done.size());
  CHECK(done.at(renamed - 1) == FileCall{"fsync", at.temporary});
  CHECK(done.back() == FileCall{"fsync", at.folder.path()});
}

TEST_CASE("AtomicFile: one that is not committed flushes nothing and goes") {
  const Replaced at;
  const FileCalls calls(at.folder.path());
  {
    AtomicFile file(at.path);
    file.write("new", 3);
  }
  CHECK(lasting(calls.all()) == std::vector<FileCall>{{"write", at.temporary}, {"unlink", at.temporary}});
  CHECK(read_bytes(at.path) == "old");
}

TEST_CASE(
    "AtomicFile: the loss of power at any moment leaves the old file or the new one, and the new one at the end") {
  const Replaced at;
  Disk disk(at.folder.path());
  const FileCalls calls(at.folder.path());
  at.replace();
  std::mt19937_64 random(1);
  for (const FileCall& call : calls.all()) {
    CAPTURE(call.name);
    disk.make(call);
    for (const Left left : kAllLeft) {
      const std::string bytes = disk.contents(left, random).files.at("a");
      CHECK((bytes == "old" || bytes == "new and longer"));
    }
  }
  const FolderContents at_the_end = disk.contents(Left::nothing, random);
  CHECK(at_the_end == contents_of(at.folder.path()));
  CHECK(at_the_end.files.at("a") == "new and longer");
}

TEST_CASE("Disk: what was not flushed may be lost, and only that") {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "a", other = folder / "b";
  Disk disk(folder.path());
  std::mt19937_64 random(1);
  const auto files = [&](Left left) { return disk.contents(left, random).files; };
  using Files = std::map<std::filesystem::path, std::string>;
  disk.make({.name = "open", .path = path, .flags = O_CREAT});
  disk.make({.name = "write", .path = path, .data = "12"});
  CHECK(files(Left::nothing) == Files{});
  CHECK(files(Left::names) == Files{{"a", ""}});
  CHECK(files(Left::bytes) == Files{});
  CHECK(files(Left::everything) == Files{{"a", "12"}});
  disk.make({"rename", other, path});
  CHECK(files(Left::names) == Files{{"b", ""}});  // an empty file: the right order of calls prevents this
  disk.make({"fsync", other});
  CHECK(files(Left::nothing) == Files{});
  CHECK(files(Left::names) == Files{{"b", "12"}});
  disk.make({"fsync", folder.path()});
  CHECK(files(Left::nothing) == Files{{"b", "12"}});
  disk.make({.name = "write", .path = other, .data = "3", .offset = 2});
  disk.make({.name = "write", .path = other, .data = "45", .offset = 3});
  CHECK(files(Left::names) == Files{{"b", "12"}});
  CHECK(files(Left::bytes) == Files{{"b", "12345"}});
  std::set<std::string> seen;
  for (int i = 0; i < 200; ++i) seen.insert(files(Left::some).at("b"));
  CHECK(seen == std::set<std::string>{"12",
                                      "123",
                                      "1234",
                                      "12345",
                                      {"12\0"
                                       "4",
                                       4},
                                      {"12\0"
                                       "45",
                                       5},
                                      {"12\0", 3}});
  CHECK_THROWS_AS(disk.make({"write", folder / "unknown"}), std::logic_error);
}

TEST_CASE("arrays: where any call fails that writes a file of tensors, the old one stays") {
  const auto write = [](const std::filesystem::path& folder, int64_t size) {
    const Tensor x = full({size}, 0.5);
    write_npy(folder / "a.npy", x);
    write_npz(folder / "b.npz", {{"x", x}, {"y", x}});
    write_safetensors(folder / "c.safetensors", {.tensors = {{"x", x}}, .metadata = {{"size", "?"}}});
  };
  check_each_failure([&](const auto& folder) { write(folder, 3); }, [&](const auto& folder) { write(folder, 40); });
}
