#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace linnet::test {

/// One of the C library's calls that change files or folders: open, write, ftruncate, fsync, rename, unlink.
struct FileCall {
  std::string name;
  std::filesystem::path path;  ///< what it was of; of rename, the new name
  bool operator==(const FileCall&) const = default;
};

/// While one lives, this process's file calls below `folder` are recorded, in their order, and fail as told.
class FileCalls {
 public:
  explicit FileCalls(std::filesystem::path folder);
  ~FileCalls();
  FileCalls(const FileCalls&) = delete;
  FileCalls& operator=(const FileCalls&) = delete;

  /// The next `times` calls like this fail with the error.
  void fail(const FileCall& call, int error, int times = 1);
  /// Of every write, no more than so many bytes are taken.
  void shorten_writes(size_t bytes);

  /// So far. Those that failed are among them.
  std::vector<FileCall> all() const;
};

}  // namespace linnet::test
