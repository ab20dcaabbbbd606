#pragma once

#include <cstdint>
#include <filesystem>

namespace linnet {

/// A file that appears under its name only when it is complete. Writes go to `.<name>.tmp` in the same folder, and
/// `commit` flushes this temporary file to the disk and renames it. Without `commit` the destructor removes it, and
/// an older file of that name does not change. A process that is killed leaves its temporary file behind; the next
/// process that writes to the same name uses it. The new file gets the permissions of the older one. If the name is a
/// symbolic link, the link stays, and the file that it points to is replaced or made.
class AtomicFile {
 public:
  /// Throws: IoError when the folder cannot be written to, when the name belongs to something other than a file or
  /// to a symbolic link that leads back to itself, or while any process has another AtomicFile of this name.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes.
  ///
  /// Throws: IoError, for example when the disk is full.
  void write(const void* data, int64_t bytes);
  /// Gives the new file its final name. The change survives a power cut that happens after this returns.
  ///
  /// Throws: IoError. If the disk fails after the rename, the new file has its name, and the message says so.
  void commit();

 private:
  [[noreturn]] void fail(const char* remedy) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace linnet
