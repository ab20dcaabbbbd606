#pragma once

#include <cstdint>
#include <string>

namespace linnet::test {

/// While one lives, counts what all threads of this program ask the C library for: every form of `new` does, and so
/// do OpenBLAS and the other libraries. One at a time.
class AllocationCount {
 public:
  /// Calls for at least that many bytes count as large.
  explicit AllocationCount(int64_t large_from);
  ~AllocationCount();
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;

  int64_t small() const;  ///< calls of malloc and its kind for less
  int64_t large() const;  ///< and for that much or more
  int64_t mmaps() const;  ///< calls of mmap; malloc's own are not seen, the calls of malloc that need them are
};

/// While one lives, one request of this thread for memory, of those that AllocationCount counts, finds none.
class AllocationFailure {
 public:
  /// Request `n`, from 0.
  explicit AllocationFailure(int64_t n);
  ~AllocationFailure();
  AllocationFailure(const AllocationFailure&) = delete;
  AllocationFailure& operator=(const AllocationFailure&) = delete;

  bool happened() const;  ///< whether there were more than n requests
};

/// While one lives, adds up the memory that this thread asks the C library for and gives back. One at a time.
class MemoryUse {
 public:
  MemoryUse();
  ~MemoryUse();
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;

  int64_t live() const;  ///< bytes that it has now, beyond those that it had
  int64_t peak() const;  ///< the most of them at any time
};

/// Whether this build counts them. Where it does not, a line says so, why, and what was not tried.
bool allocations_are_counted(const std::string& not_tried);

}  // namespace linnet::test
