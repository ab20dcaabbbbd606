#pragma once

#include <cstdint>
#include <filesystem>

namespace linnet {

/// A file that appears under its name only when it is complete. Writes go to `.<name>.tmp` in the same folder, and
/// `commit` flushes this temporary file to the disk and renames it. Without `commit` the destructor removes it, and
/// an older file of the name stays as it was. A process that is killed leaves the temporary file, which the next
/// process that writes under the name takes over. The file has the permissions of the older one. Where the name is a
/// symbolic link, it stays, and the file that it points to is the one that is replaced.
class AtomicFile {
 public:
  /// Throws: IoError when the folder cannot be written to, when the name belongs to something other than a file, or
  /// while another AtomicFile of any process has the name.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends.
  ///
  /// Throws: IoError, for example when the disk is full.
  void write(const void* data, int64_t bytes);
  /// Puts the file in its place, durably: after a power cut the new file is there, and not the old one.
  ///
  /// Throws: IoError. If the disk fails after the rename, the file is in its place, and the message says so.
  void commit();

 private:
  [[noreturn]] void fail(const char* remedy) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace linnet
