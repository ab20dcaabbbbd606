#include <linnet/core/files/read_file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet::detail {

std::optional<std::string> read_file(const std::filesystem::path& path, int64_t most) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  std::error_code no_size;  // a pipe has none
  const auto size = std::filesystem::file_size(path, no_size);
  if (!no_size) bytes.reserve(std::min(size, static_cast<uintmax_t>(most)));
  std::array<char, 1 << 14> chunk;
  while (file && std::ssize(bytes) < most) {
    file.read(chunk.data(), std::min(std::ssize(chunk), most - std::ssize(bytes)));
    bytes.append(chunk.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) return std::nullopt;  // opening a folder succeeds; reading it fails
  return bytes;
}

std::ifstream open_to_read(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::error_code ignored;
  if (!file || !std::filesystem::is_regular_file(path, ignored)) {  // a folder can be opened, and not read
    const int error = errno;
    throw IoError(fmt::format("cannot read '{}'{}; check that the file exists and that you may read it",
                              path.string(), error == 0 ? "" : std::string(": ") + std::strerror(error)));
  }
  return file;
}

}  // namespace linnet::detail
