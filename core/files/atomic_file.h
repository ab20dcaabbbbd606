#pragma once

#include <cstdint>
#include <filesystem>

namespace linnet {

/// A file that appears under its name only when it is complete. What is written goes to `.<name>.tmp` in the same
/// folder; `commit` flushes it to the disk and renames it. Without `commit` the destructor removes it, and a file
/// that had the name before stays as it was. A process that is killed leaves the temporary file, which the next one
/// that writes under the name takes over.
class AtomicFile {
 public:
  /// Throws IoError when the folder cannot be written to, when the name belongs to something other than a file, or
  /// while another AtomicFile of any process has the name.
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends. Throws IoError, when the disk is full for example.
  void write(const void* data, int64_t bytes);
  /// Puts the file in its place, for good: after it, not even a power cut brings the old one back. Throws IoError;
  /// the file is in its place then only if the disk fails after that, and the message says so.
  void commit();

 private:
  [[noreturn]] void fail(const char* remedy) const;

  std::filesystem::path path_;
  std::filesystem::path temporary_;
  int descriptor_ = -1;
};

}  // namespace linnet
