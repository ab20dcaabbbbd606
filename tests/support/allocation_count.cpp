#include "tests/support/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace linnet::test {
namespace {

std::atomic<int64_t> allocations{0};

void* counted(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(size == 0 ? 1 : size);
}

}  // namespace

int64_t allocations_so_far() { return allocations.load(std::memory_order_relaxed); }

}  // namespace linnet::test

// The other forms of new and delete call these, in the standard library; in AddressSanitizer's they do not, and
// memory of its nothrow new, freed by this delete, would be a mismatch.
void* operator new(size_t size) {
  void* memory = linnet::test::counted(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t size, const std::nothrow_t& /*tag*/) noexcept { return linnet::test::counted(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*size*/) noexcept { std::free(memory); }
