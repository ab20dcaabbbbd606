#pragma once

#include <cerrno>
#include <cstdint>
#include <filesystem>

namespace linnet::detail {

/// Repeats the call while a signal interrupts it.
template <class Call>
int uninterrupted(const Call& call) {
  for (;;) {
    const int result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

/// Writes all bytes to an open file. Returns false with errno where that fails; some of them may then be written.
bool write_all(int descriptor, const void* data, int64_t bytes);

/// Waits until the names in a folder are on the disk, so that a power cut takes back no new or replaced one. Returns
/// 0, or the error of a failing or full disk. A folder that cannot be flushed for another reason, as on some file
/// systems, is no failure.
int flush_folder(const std::filesystem::path& folder);

}  // namespace linnet::detail
