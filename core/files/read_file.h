#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

namespace linnet::detail {

/// The bytes of a file, at most the first `most` of them. Returns nothing if they cannot be read; errno then holds
/// the reason, or 0 if the system gave none. Takes no more memory than the bytes.
std::optional<std::string> read_file(const std::filesystem::path& path,
                                     int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace linnet::detail
