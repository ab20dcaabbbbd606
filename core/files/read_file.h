#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace linnet::detail {

/// The bytes of a file, at most the first `most` of them. Returns nothing if they cannot be read; errno then holds
/// the reason, or 0 if the system gave none. Takes no more memory than the bytes.
std::optional<std::string> read_file(const std::filesystem::path& path,
                                     int64_t most = std::numeric_limits<int64_t>::max());

/// Opens a file to read its bytes. Throws IoError, with the system's reason, where there is no such file.
std::ifstream open_to_read(const std::filesystem::path& path);

}  // namespace linnet::detail
