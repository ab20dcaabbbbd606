#include <linnet/core/atomic_file.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <linnet/core/error.h>

namespace linnet {

namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

/// A name that no other file being written has: neither of this process nor of another.
std::filesystem::path temporary_name(const std::filesystem::path& path) {
  static std::atomic<int> count{0};
  return folder_of(path) / fmt::format(".{}.{}-{}.tmp", path.filename().string(), ::getpid(), count++);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)), temporary_(temporary_name(path_)) {
  std::error_code ignored;
  if (std::filesystem::exists(path_, ignored) && !std::filesystem::is_regular_file(path_, ignored)) {
    throw IoError(fmt::format("cannot write '{}': it is not a file; choose another name", path_.string()));
  }
  descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("check that the folder exists and that you may write to it");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, int64_t bytes) {
  const char* next = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = ::write(descriptor_, next, static_cast<size_t>(bytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("free some space or choose another folder");
    next += written;
    bytes -= written;
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail("free some space or choose another folder");
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("check that you may write to the folder");
  ::close(std::exchange(descriptor_, -1));
  // The new name is on the disk once the folder is. Some file systems cannot flush folders, which is no
  // failure.
  const int folder = ::open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  ::fsync(folder);
  ::close(folder);
}

void AtomicFile::fail(const char* remedy) const {
  throw IoError(fmt::format("cannot write '{}': {}; {}", path_.string(), std::strerror(errno), remedy));
}

}  // namespace linnet
