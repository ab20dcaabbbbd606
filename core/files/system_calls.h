#pragma once

#include <cerrno>
#include <cstdint>
#include <filesystem>

namespace linnet::detail {

/// Makes a system call again as long as a signal interrupts it.
template <class Call>
int uninterrupted(const Call& call) {
  for (;;) {
    const int result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

/// Writes all bytes to an open file. Returns false, with errno set, if that fails; some bytes may then be written.
bool write_all(int descriptor, const void* data, int64_t bytes);

/// Waits until the names in a folder are on the disk, so that a power cut does not undo a new or replaced file.
/// Returns 0, or the error of a failing or full disk. Some file systems cannot flush a folder; this is not an error.
int flush_folder(const std::filesystem::path& folder);

}  // namespace linnet::detail
