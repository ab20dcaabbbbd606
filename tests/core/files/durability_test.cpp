/// That a file is on the disk before it gets its name, and the name before the writer goes on; and what becomes of
/// both when a call fails.

#include <cerrno>
#include <cstring>
#include <functional>

#include <doctest/doctest.h>
#include <linnet/core/error.h>
#include <linnet/core/files/atomic_file.h>
#include <linnet/core/files/npy.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/ops/array/creation.h>

#include "tests/support/disk/failing_calls.h"
#include "tests/support/disk/file_calls.h"
#include "tests/support/files.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// In a folder, with the old file there already.
struct Replaced {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "a", temporary = folder / ".a.tmp";

  Replaced() { write_bytes(path, "old"); }

  /// Writes "new and longer" over it, in two parts.
  void replace() const {
    AtomicFile file(path);
    file.write("new and", 7);
    file.write(" longer", 7);
    file.commit();
  }
};

/// Those that decide what a power cut leaves.
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

TEST_CASE("arrays: where any call fails that writes a file of tensors, the old one stays") {
  const auto write = [](const std::filesystem::path& folder, int64_t size) {
    const Tensor x = full({size}, 0.5);
    write_npy(folder / "a.npy", x);
    write_npz(folder / "b.npz", {{"x", x}, {"y", x}});
    write_safetensors(folder / "c.safetensors", {.tensors = {{"x", x}}, .metadata = {{"size", "?"}}});
  };
  check_each_failure([&](const auto& folder) { write(folder, 3); }, [&](const auto& folder) { write(folder, 40); });
}
