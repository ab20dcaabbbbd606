#include "tests/support/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace linnet::test {
namespace {

std::atomic<int64_t> allocations{0};

void* counted(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  allocations.fetch_add(1, std::memory_order_relaxed);
  return memory;
}

}  // namespace

int64_t allocations_so_far() { return allocations.load(std::memory_order_relaxed); }

}  // namespace linnet::test

// The standard library's other forms of new and delete call these.
void* operator new(size_t size) { return linnet::test::counted(std::malloc(size == 0 ? 1 : size)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*size*/) noexcept { std::free(memory); }
