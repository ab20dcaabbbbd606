#pragma once

#include <filesystem>
#include <string_view>
#include <system_error>

/// Folders, files and output of programs. All errors are IoError; the message names the file and what to do.

namespace linnet::examples {

/// The advice in messages about a run's file that cannot be read. It does not say to delete the file, because the
/// file may not be linnet's.
inline constexpr const char* kRemedy = "train anew, into another folder";

/// Creates the folder and its parents, so that they survive a power cut. `error` says what went wrong.
void make_folders(const std::filesystem::path& folder, std::error_code& error);

/// Whether a file or a folder is hidden, as macOS's ._a.txt is.
bool is_hidden(const std::filesystem::path& path);

/// Creates the folder that --out names, and its parents, if they do not exist.
void make_folder(const std::filesystem::path& folder);

/// Why no file can be written to the folder, or why it cannot be made; no error if nothing speaks against it. Makes
/// nothing.
std::error_code write_error(const std::filesystem::path& folder);

/// Throws IoError if --out names a folder with a write_error.
void check_folder(const std::filesystem::path& folder);

/// While it exists, no other process can lock the folder. The lock leaves no file behind. Folders that cannot be
/// locked, as on some network file systems, are used without a lock.
class FolderLock {
 public:
  /// Throws IoError if another run holds the lock.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_;
};

/// Replaces the file's content; after an error the file is unchanged (see AtomicFile).
void replace_file(const std::filesystem::path& path, std::string_view bytes);

/// Appends bytes to a file, all of them or none.
void append(const std::filesystem::path& path, std::string_view bytes);

/// Waits until the file's content is on the disk (fsync), so that it survives a power cut.
void flush_to_disk(const std::filesystem::path& path);

/// Flushes stdout. It is no error if the reader has closed it, as `| head` does.
void flush_output();

}  // namespace linnet::examples
