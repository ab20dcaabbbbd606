#pragma once

#include <algorithm>
#include <filesystem>

#include <doctest/doctest.h>

#include <linnet/core/device/allocator.h>
#include <linnet/core/error.h>

#include "tests/support/allocation_count.h"

/// The limit on the memory for reading a file: at no time more than twice the larger of the file and the content read
/// from it, and 16 MiB.

namespace linnet::test {

constexpr int64_t kMiB = int64_t{1} << 20;

/// The memory for reading a file, in bytes.
struct FileMemory {
  bool is_read;
  int64_t kept, peak;
};

/// Additions to the limit, in bytes.
struct MoreMemory {
  int64_t before_fault = 0;  ///< the content that was read from a file before it was refused
  int64_t parser = 0;        ///< a library's own memory
};

/// Checks the limit for `read()`, which returns the content of the file at `path` or refuses it with an Error.
template <class Read>
FileMemory check_memory(const std::filesystem::path& path, Read&& read, const MoreMemory& more = {}) {
  cpu_memory::release_cached();
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path));
  const MemoryUse use;
  int64_t of_file = more.before_fault;
  bool is_read = true;
  try {
    [[maybe_unused]] const auto result = read();
    of_file = use.live();
  } catch (const Error&) {
    is_read = false;
  }
  CAPTURE(size);
  CAPTURE(of_file);
  CHECK(use.peak() <= 2 * std::max(size, of_file) + 16 * kMiB + more.parser);
  return {is_read, of_file, use.peak()};
}

}  // namespace linnet::test
