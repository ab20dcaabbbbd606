#pragma once

#include <filesystem>

namespace linnet::examples {

/// A folder that appears under its name only when it is complete, as AtomicFile does for a file. Its files are
/// written into `temporary`, which is `.<name>.tmp` beside it, and `commit` renames it. Without `commit` the
/// destructor removes it. If a process is killed, its temporary folder stays, and the next process empties and uses
/// it.
class AtomicFolder {
 public:
  /// Makes its parent folders too. While another process makes the same folder, this one waits and says so on
  /// stderr. Check afterwards whether the folder exists.
  ///
  /// Throws: IoError when the folder cannot be made; Interrupted after Ctrl-C.
  explicit AtomicFolder(std::filesystem::path path);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  const std::filesystem::path& temporary() const { return temporary_; }
  /// Puts the folder in its place, durably.
  ///
  /// Throws: IoError.
  void commit();

 private:
  bool try_to_lock();
  [[noreturn]] void fail() const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace linnet::examples
