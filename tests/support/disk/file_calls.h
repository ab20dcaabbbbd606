#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace linnet::test {

/// One of the C library's calls that change files or folders: open (of a folder, or to write), write, ftruncate,
/// fsync, close, rename, unlink or mkdir. Similar calls are recorded under these names: writev and pwrite, truncate,
/// fdatasync, unlinkat and remove.
struct FileCall {
  std::string name;
  std::filesystem::path path;       ///< its argument; for rename, the new name
  std::filesystem::path from = {};  ///< the old name, for rename
  int flags = 0;                    ///< the flags of open
  std::string data = {};            ///< the bytes that it wrote
  int64_t offset = 0;               ///< where it wrote; the new size, for ftruncate
  int error = 0;                    ///< the errno if it failed, else 0

  friend bool operator==(const FileCall& a, const FileCall& b) { return a.name == b.name && a.path == b.path; }
};

/// While it exists, records this process's file calls below `folder` in their order, and makes some of them fail.
/// Calls that flush are recorded, but not made.
class FileCalls {
 public:
  explicit FileCalls(std::filesystem::path folder);
  ~FileCalls();
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  /// The next `times` calls like this fail with the error. (A close that fails has closed the file nevertheless.)
  void fail(const FileCall& call, int error, int times = 1);
  /// Call number `number` of all(), whichever it is, fails with the error.
  void fail_number(size_t number, int error);
  /// A signal interrupts each call once, if POSIX allows that for this call.
  void interrupt_each();
  /// Every write takes at most `bytes` bytes.
  void shorten_writes(size_t bytes);

  /// The calls so far, including those that failed.
  std::vector<FileCall> all() const;
};

}  // namespace linnet::test
