#pragma once

#include <cstdint>
#include <string>

namespace linnet::test {

/// While it exists, counts the allocations of all threads through the C library, which every form of `new`, OpenBLAS
/// and other libraries use. Only one may exist at a time.
class AllocationCount {
 public:
  /// Allocations of at least `large_from` bytes count as large.
  explicit AllocationCount(int64_t large_from);
  ~AllocationCount();
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;

  int64_t small() const;  ///< calls of malloc and similar functions for fewer bytes
  int64_t large() const;  ///< calls for at least that many
  int64_t mmaps() const;  ///< calls of mmap, except those that malloc itself makes
};

/// While it exists, one of this thread's allocations fails. It counts those of AllocationCount, except OpenBLAS's.
class AllocationFailure {
 public:
  /// Allocation number `n` fails, counted from 0.
  explicit AllocationFailure(int64_t n);
  ~AllocationFailure();
  AllocationFailure(const AllocationFailure&) = delete;
  AllocationFailure& operator=(const AllocationFailure&) = delete;

  bool happened() const;  ///< whether there were more than n allocations
};

/// Counts the memory that all threads allocate and free during its lifetime. At most one may exist at a time.
class MemoryUse {
 public:
  MemoryUse();
  ~MemoryUse();
  MemoryUse(const MemoryUse&) = delete;
  MemoryUse& operator=(const MemoryUse&) = delete;

  int64_t live() const;  ///< bytes allocated since the construction and not freed
  int64_t peak() const;  ///< the highest live() so far
  /// Allocations since the construction minus those freed. Unlike bytes, this number does not depend on how much
  /// malloc adds to a request.
  int64_t blocks() const;
};

/// Whether this build counts allocations. If not, it prints a line with the reason and what was not tested.
bool allocations_are_counted(const std::string& not_tried);

}  // namespace linnet::test
