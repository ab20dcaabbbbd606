#include "support/files.h"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <linnet/core/error.h>
#include <linnet/core/files/atomic_file.h>

namespace linnet::examples {
namespace {

[[noreturn]] void refuse_to_write(const std::filesystem::path& path, const std::string& why) {
  throw IoError(
      fmt::format("cannot write '{}': {}; free some space, and check that you may write there", path.string(), why));
}

}  // namespace

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    throw IoError(fmt::format("--out: cannot make {}: {}; choose another folder", folder.string(), error.message()));
  }
}

void replace_file(const std::filesystem::path& path, std::string_view bytes) {
  AtomicFile file(path);
  file.write(bytes.data(), std::ssize(bytes));
  file.commit();
}

void append(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code none;
  const auto size = std::filesystem::exists(path, none) ? std::filesystem::file_size(path, none) : 0;
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << bytes << std::flush;
  if (file) return;
  const std::string why = std::generic_category().message(errno);
  file.close();
  std::filesystem::resize_file(path, size, none);
  refuse_to_write(path, why);
}

void flush_to_disk(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  int status = -1;
  do {
    status = file < 0 ? -1 : ::fsync(file);
  } while (status < 0 && errno == EINTR);
  const int why = errno;
  if (file >= 0) ::close(file);
  if (status == 0) return;
  refuse_to_write(path, std::generic_category().message(why));
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
