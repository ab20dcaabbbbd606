#include <linnet/core/files/read_file.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet::detail {

void cannot_read(const std::filesystem::path& path, const char* remedy) {
  const char* reason = errno == 0 ? "it is not a file" : std::strerror(errno);
  throw IoError(fmt::format("cannot read '{}': {}; {}", path.string(), reason, remedy));
}

std::string read_file(const std::filesystem::path& path, int64_t most, const char* remedy) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes;
  std::error_code no_size;  // a pipe has no size
  const auto size = std::filesystem::file_size(path, no_size);
  if (!no_size) bytes.reserve(std::min(size, static_cast<uintmax_t>(most)));
  std::array<char, 1 << 14> chunk;
  while (file && std::ssize(bytes) < most) {
    file.read(chunk.data(), std::min(std::ssize(chunk), most - std::ssize(bytes)));
    bytes.append(chunk.data(), static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad()) cannot_read(path, remedy);  // opening a folder succeeds; reading it fails
  return bytes;
}

std::ifstream open_to_read(const std::filesystem::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::error_code ignored;
  // Opening a folder succeeds, but it cannot be read.
  if (!file || !std::filesystem::is_regular_file(path, ignored)) cannot_read(path);
  return file;
}

int64_t file_size(std::ifstream& file) {
  const std::streampos place = file.tellg();
  file.seekg(0, std::ios::end);
  const std::streampos end = file.tellg();
  file.seekg(place);
  return end;
}

}  // namespace linnet::detail
