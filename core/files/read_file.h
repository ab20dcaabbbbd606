#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>

namespace linnet::detail {

/// The bytes of a file, or the first `most` of them, in no more memory than they take; nothing where they cannot be
/// read, and errno says why, if the system did.
std::optional<std::string> read_file(const std::filesystem::path& path,
                                     int64_t most = std::numeric_limits<int64_t>::max());

}  // namespace linnet::detail
