#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

namespace linnet::detail {

inline constexpr const char* kCheckFile = "check that the file exists and that you may read it";

/// Throws the IoError for a file that cannot be read. errno holds the system's reason, or is 0 if it is not a file.
[[noreturn]] void cannot_read(const std::filesystem::path& path, const char* remedy = kCheckFile);

/// The bytes of a file, at most the first `most` of them. Takes no more memory than these bytes. Throws like
/// `cannot_read`.
std::string read_file(const std::filesystem::path& path, int64_t most = std::numeric_limits<int64_t>::max(),
                      const char* remedy = kCheckFile);

/// Opens a file to read its bytes. Throws like `cannot_read`.
std::ifstream open_to_read(const std::filesystem::path& path);
/// The size in bytes of a file that `open_to_read` opened. It asks the open file, because its path may by now be that
/// of another file.
int64_t file_size(std::ifstream& file);

}  // namespace linnet::detail
