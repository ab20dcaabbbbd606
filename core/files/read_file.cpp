#include <linnet/core/files/read_file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>

namespace linnet::detail {

std::optional<std::string> read_file(const std::filesystem::path& path, int64_t most) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  std::error_code no_size;  // as of a pipe, whose bytes are taken as they come
  const auto size = std::filesystem::file_size(path, no_size);
  if (!no_size) bytes.reserve(std::min(size, static_cast<uintmax_t>(most)));
  std::array<char, 1 << 14> piece;
  while (file && std::ssize(bytes) < most) {
    file.read(piece.data(), std::min(std::ssize(piece), most - std::ssize(bytes)));
    bytes.append(piece.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) return std::nullopt;  // a folder opens, and cannot be read
  return bytes;
}

}  // namespace linnet::detail
