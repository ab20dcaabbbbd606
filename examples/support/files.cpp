#include "support/files.h"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <unistd.h>

#include <linnet/core/error.h>
#include <linnet/core/files/atomic_file.h>
#include <linnet/core/files/system_calls.h>

namespace linnet::examples {
namespace {

[[noreturn]] void refuse_to_write(const std::filesystem::path& path, int why) {
  throw IoError(fmt::format("cannot write '{}': {}; free some space, and check that you may write there",
                            path.string(), std::generic_category().message(why)));
}

/// Returns a descriptor of the file, which the caller closes.
int open_to_write(const std::filesystem::path& path, int flags = 0) {
  const int file =
      linnet::detail::uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_CLOEXEC | flags, 0666); });
  if (file < 0) refuse_to_write(path, errno);
  return file;
}

}  // namespace

void make_folders(const std::filesystem::path& folder, std::error_code& error) {
  std::error_code none;
  std::vector<std::filesystem::path> unflushed;
  for (auto at = folder; at.has_relative_path(); at = at.parent_path()) {
    unflushed.push_back(at);
    if (std::filesystem::exists(at, none)) break;  // this too: its maker may have been killed at once
  }
  std::filesystem::create_directories(folder, error);
  for (const std::filesystem::path& made : unflushed) {
    if (error) return;
    error.assign(linnet::detail::flush_folder(made.parent_path()), std::generic_category());
  }
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  make_folders(folder, error);
  if (error) {
    throw IoError(fmt::format("--out: cannot make {}: {}; choose another folder", folder.string(), error.message()));
  }
}

bool is_hidden(const std::filesystem::path& path) { return path.filename().string().starts_with('.'); }

std::error_code write_error(const std::filesystem::path& folder) {
  std::error_code none;
  std::filesystem::path at = folder;  // or the first of its parents that exists
  while (!at.empty() && !std::filesystem::exists(at, none)) at = at.parent_path();
  if (at.empty()) at = ".";
  if (!std::filesystem::is_directory(at, none)) return std::make_error_code(std::errc::not_a_directory);
  return {::access(at.c_str(), W_OK | X_OK) == 0 ? 0 : errno, std::generic_category()};
}

void check_folder(const std::filesystem::path& folder) {
  const std::error_code error = write_error(folder);
  if (!error) return;
  std::error_code none;
  throw IoError(fmt::format("--out: cannot {} {}: {}; choose another folder",
                            std::filesystem::is_directory(folder, none) ? "write to" : "make", folder.string(),
                            error.message()));
}

FolderLock::FolderLock(const std::filesystem::path& folder)
    : descriptor_(
          linnet::detail::uninterrupted([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); })) {
  if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  ::close(descriptor_);
  throw IoError(fmt::format("a run is under way in --out {}; wait for it or end it, or choose another folder",
                            folder.string()));
}

FolderLock::~FolderLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void replace_file(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), std::ssize(bytes));
  file.commit();
}

void append(const std::filesystem::path& path, std::string_view bytes) {
  const int file = open_to_write(path, O_APPEND | O_CREAT);
  const off_t size = ::lseek(file, 0, SEEK_END);
  const int why = linnet::detail::write_all(file, bytes.data(), std::ssize(bytes)) ? 0 : errno;
  if (why != 0) {
    (void)linnet::detail::uninterrupted([&] { return ::ftruncate(file, size); });
  }
  ::close(file);
  if (why != 0) refuse_to_write(path, why);
}

void flush_to_disk(const std::filesystem::path& path) {
  const int file = open_to_write(path);
  const int why = linnet::detail::uninterrupted([&] { return ::fsync(file); }) == 0 ? 0 : errno;
  ::close(file);
  if (why != 0) refuse_to_write(path, why);
}

void flush_output() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  const std::string why = errno != 0 ? std::generic_category().message(errno) : "some of it is lost";
  pollfd output{.fd = STDOUT_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&output, 1, 0) > 0 && (output.revents & POLLERR) != 0) return;
  throw IoError(fmt::format("cannot write the output: {}; free some space, or send it elsewhere", why));
}

}  // namespace linnet::examples
