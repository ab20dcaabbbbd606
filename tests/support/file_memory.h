#pragma once

#include <algorithm>
#include <filesystem>

#include <doctest/doctest.h>

#include <linnet/core/device/allocator.h>
#include <linnet/core/error.h>

#include "tests/support/allocation_count.h"

/// How much memory reading a file may take: at no time more than twice the larger of the file and what is read from
/// it, and 16 MiB.

namespace linnet::test {

constexpr int64_t kMiB = int64_t{1} << 20;

/// What reading a file took, in bytes.
struct FileMemory {
  bool is_read;
  int64_t kept, peak;
};

/// Checks it for what `read` returns. Of a file that is refused, with an Error, what was read before the fault
/// counts, of which there is at most `before_fault`.
template <class Read>
FileMemory check_memory(const std::filesystem::path& path, Read&& read, int64_t before_fault = 0) {
  cpu_memory::release_cached();
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  const MemoryUse use;
  int64_t of_file = before_fault;
  bool is_read = true;
  try {
    [[maybe_unused]] const auto result = read();
    of_file = use.live();
  } catch (const Error&) {
    is_read = false;
  }
  CAPTURE(size);
  CAPTURE(of_file);
  CHECK(use.peak() <= 2 * std::max(size, of_file) + 16 * kMiB);
  return {is_read, of_file, use.peak()};
}

}  // namespace linnet::test
