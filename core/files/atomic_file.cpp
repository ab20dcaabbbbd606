#include <linnet/core/files/atomic_file.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linnet/core/error.h>
#include <linnet/core/files/system_calls.h>

namespace linnet {

namespace {

std::filesystem::path folder_of(const std::filesystem::path& path) {
  return path.has_parent_path() ? path.parent_path() : ".";
}

bool is_still_named(int descriptor, const std::filesystem::path& path) {
  struct stat opened = {}, named = {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

/// Opens an empty file, and locks it until it is closed or the process ends. An existing file is reused, unless
/// another process has locked it: then this returns -1 with errno EWOULDBLOCK. Other errors return -1 with their
/// errno.
int open_locked(const std::filesystem::path& path) {
  for (;;) {
    const auto open = [&](int flags) {
      return detail::uninterrupted([&] { return ::open(path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC, 0666); });
    };
    int descriptor = open(O_WRONLY | O_CREAT);
    // A process that was killed may have left a file that is read-only, as the file that it was to replace.
    const bool is_read_only = descriptor < 0 && errno == EACCES && ::access(path.c_str(), F_OK) == 0;
    if (is_read_only) descriptor = open(O_RDONLY);
    if (descriptor < 0) return -1;
    // A file system without locks returns another error. We then use the file as if it were locked.
    if (::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(descriptor);
      errno = EWOULDBLOCK;
      return -1;
    }
    // Between the two calls, the process that had the file may have committed or removed it.
    if (is_still_named(descriptor, path)) {
      if (!is_read_only && detail::uninterrupted([&] { return ::ftruncate(descriptor, 0); }) == 0) return descriptor;
      const int why = errno;
      const bool is_removed = ::unlink(path.c_str()) == 0;
      ::close(descriptor);
      if (is_read_only && is_removed) continue;
      errno = is_read_only ? EACCES : why;
      return -1;
    }
    ::close(descriptor);
  }
}

/// The file that a symbolic link points to, whether it exists or not; any other path itself.
std::filesystem::path target_of(const std::filesystem::path& path) {
  constexpr int kMostLinks = 40;  // as in Linux
  std::filesystem::path target = path;
  for (int i = 0; i <= kMostLinks; ++i) {
    std::error_code no_link;
    const std::filesystem::path next = std::filesystem::read_symlink(target, no_link);
    if (no_link) return target;
    target = folder_of(target) / next;  // `next` alone if it is absolute
  }
  throw IoError(
      fmt::format("cannot write '{}': its symbolic links lead round in a circle; remove them", path.string()));
}

/// Gives the new file the permissions of the file that it will replace, if there is one.
void keep_permissions(int descriptor, const std::filesystem::path& path) {
  struct stat old{};
  if (::stat(path.c_str(), &old) == 0) ::fchmod(descriptor, old.st_mode & 07777);
}

}  // namespace

AtomicFile::AtomicFile(const std::filesystem::path& path)
    : path_(target_of(path)), temporary_(folder_of(path_) / fmt::format(".{}.tmp", path_.filename().string())) {
  std::error_code ignored;
  if (std::filesystem::exists(path_, ignored) && !std::filesystem::is_regular_file(path_, ignored)) {
    throw IoError(fmt::format("cannot write '{}': it is not a file; choose another name", path_.string()));
  }
  descriptor_ = open_locked(temporary_);
  if (descriptor_ < 0 && errno == EWOULDBLOCK) {
    throw IoError(fmt::format("cannot write '{}': another program is writing it; wait for it, or choose another name",
                              path_.string()));
  }
  if (descriptor_ < 0) fail("check that the folder exists and that you may write to it");
  keep_permissions(descriptor_, path_);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::unlink(temporary_.c_str());  // before the lock ends, because another process may then create a file of this name
  ::close(descriptor_);
}

void AtomicFile::write(const void* data, int64_t bytes) {
  if (!detail::write_all(descriptor_, data, bytes)) fail("free some space or choose another folder");
}

void AtomicFile::commit() {
  const std::filesystem::path parent = folder_of(path_);  // before the rename: if this throws, the old file stays
  if (detail::uninterrupted([&] { return ::fsync(descriptor_); }) != 0) {
    fail("free some space or choose another folder");
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail("check that you may write to the folder");
  ::close(std::exchange(descriptor_, -1));
  errno = detail::flush_folder(parent);
  if (errno != 0) fail("its new content is there, but may be lost in a power cut; check the disk");
}

void AtomicFile::fail(const char* remedy) const {
  throw IoError(fmt::format("cannot write '{}': {}; {}", path_.string(), std::strerror(errno), remedy));
}

}  // namespace linnet
