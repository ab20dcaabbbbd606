#pragma once

#include <filesystem>
#include <string_view>

namespace linnet::examples {

/// Appends to a file, or starts it: all of `bytes`, or, when the disk is full for example, nothing. Throws IoError.
void append(const std::filesystem::path& path, std::string_view bytes);

}  // namespace linnet::examples
