#include "support/append.h"

#include <cerrno>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include <linnet/core/error.h>

namespace linnet::examples {

void append(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code none;
  const auto size = std::filesystem::exists(path, none) ? std::filesystem::file_size(path) : 0;
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::app);
  file << bytes << std::flush;
  if (file) return;
  const std::string why = std::generic_category().message(errno);
  file.close();
  std::filesystem::resize_file(path, size, none);
  throw IoError(
      fmt::format("cannot write '{}': {}; free some space, and check that you may write there", path.string(), why));
}

}  // namespace linnet::examples
