#include "support/lra/atomic_folder.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <system_error>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <linnet/core/error.h>
#include <linnet/core/files/system_calls.h>

#include "support/files.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

namespace fs = std::filesystem;

int open_folder(const fs::path& path) {
  return linnet::detail::uninterrupted(
      [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); });
}

bool is_open_at(int descriptor, const fs::path& path) {
  struct stat opened = {}, named = {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

}  // namespace

AtomicFolder::AtomicFolder(fs::path path)
    : path_(std::move(path)), temporary_(path_.parent_path() / fmt::format(".{}.tmp", path_.filename().string())) {
  std::error_code error;
  make_folders(path_.parent_path(), error);
  errno = error.value();
  if (error) fail();
  for (bool has_waited = false; !try_to_lock(); has_waited = true) {
    if (!has_waited) fmt::print(stderr, "waiting for another program, which makes {}\n", path_.string());
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    if (interrupted()) throw Interrupted(fmt::format("stopped while another program makes {}", path_.string()));
  }
}

AtomicFolder::~AtomicFolder() {
  if (descriptor_ < 0) return;
  std::error_code ignored;
  fs::remove_all(temporary_, ignored);  // while locked: later, another process may make a folder of this name
  ::close(descriptor_);
}

/// Makes, locks and empties the temporary folder; false if another process has the lock. A file system without locks
/// gives another error. The folder then counts as this process's.
bool AtomicFolder::try_to_lock() {
  for (;;) {
    if (::mkdir(temporary_.c_str(), 0777) != 0 && errno != EEXIST) fail();
    const int descriptor = open_folder(temporary_);
    if (descriptor < 0 && errno == ENOENT) continue;  // its process has just committed or removed it
    if (descriptor < 0) {
      const int why = errno;
      ::rmdir(temporary_.c_str());
      errno = why;
      fail();
    }
    const bool is_locked = ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (is_locked || !is_open_at(descriptor, temporary_)) {
      ::close(descriptor);
      if (is_locked) return false;
      continue;
    }
    descriptor_ = descriptor;
    std::error_code ignored;
    for (const auto& left : fs::directory_iterator(temporary_, ignored)) fs::remove_all(left, ignored);
    return true;
  }
}

void AtomicFolder::commit() {
  errno = linnet::detail::flush_folder(temporary_);
  if (errno != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) fail();
  ::close(std::exchange(descriptor_, -1));
  errno = linnet::detail::flush_folder(path_.parent_path());
  if (errno != 0) fail();
}

void AtomicFolder::fail() const {
  throw IoError(fmt::format("cannot make the folder {}: {}; name another place with --data", path_.string(),
                            std::generic_category().message(errno)));
}

}  // namespace linnet::examples
