#pragma once

#include <filesystem>
#include <string_view>

/// What programs do to folders, files and their output. All errors are IoError, naming it and what to do.

namespace linnet::examples {

/// Makes the folder that --out names, and those above it, where they are not there yet.
void make_folder(const std::filesystem::path& folder);

/// Makes the file hold these bytes, or leaves it as it was (see AtomicFile).
void replace_file(const std::filesystem::path& path, std::string_view bytes);

/// Puts bytes at the end of a file, all of them or none.
void append(const std::filesystem::path& path, std::string_view bytes);

/// Returns when what was appended to a file is on the disk, where no power cut takes it back.
void flush_to_disk(const std::filesystem::path& path);

/// Writes what was printed and is still in memory. Where nobody reads it any more, as after `| head`, that is no
/// error.
void flush_output();

}  // namespace linnet::examples
