#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace linnet::test {

/// One of the C library's calls that change files or folders: open, write, ftruncate, fsync, rename, unlink.
struct FileCall {
  std::string name;
  std::filesystem::path path;  ///< the path that it was called with; for rename, the new name
  bool operator==(const FileCall&) const = default;
};

/// While it exists, records this process's file calls below `folder` in their order, and makes some of them fail.
class FileCalls {
 public:
  explicit FileCalls(std::filesystem::path folder);
  ~FileCalls();
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  /// The next `times` calls like this fail with the error.
  void fail(const FileCall& call, int error, int times = 1);
  /// Every write takes at most `bytes` bytes.
  void shorten_writes(size_t bytes);

  /// The calls so far, including those that failed.
  std::vector<FileCall> all() const;
};

}  // namespace linnet::test
