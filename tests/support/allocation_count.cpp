#include "tests/support/allocation_count.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace linnet::test {
namespace {

// Ready before any code runs, as malloc has to be.
constinit std::atomic<bool> counting{false};
constinit std::atomic<size_t> large_size{0};
constinit std::atomic<int64_t> small_calls{0}, large_calls{0}, mmap_calls{0};

constexpr int64_t kNone = -1;
constinit thread_local int64_t requests_before_failure = kNone;

constinit thread_local bool adding_up = false;
constinit thread_local int64_t live_bytes = 0, peak_bytes = 0;

}  // namespace

AllocationFailure::AllocationFailure(int64_t n) { requests_before_failure = n; }
AllocationFailure::~AllocationFailure() { requests_before_failure = kNone; }
bool AllocationFailure::happened() const { return requests_before_failure == kNone; }

MemoryUse::MemoryUse() {
  live_bytes = peak_bytes = 0;
  adding_up = true;
}
MemoryUse::~MemoryUse() { adding_up = false; }
int64_t MemoryUse::live() const { return live_bytes; }
int64_t MemoryUse::peak() const { return peak_bytes; }

AllocationCount::AllocationCount(int64_t large_from) {
  large_size = static_cast<size_t>(large_from);
  small_calls = large_calls = mmap_calls = 0;
  counting = true;
}

AllocationCount::~AllocationCount() { counting = false; }

int64_t AllocationCount::small() const { return small_calls; }
int64_t AllocationCount::large() const { return large_calls; }
int64_t AllocationCount::mmaps() const { return mmap_calls; }

bool allocations_are_counted(const std::string& not_tried) {
#ifdef LINNET_CAN_REPLACE_MALLOC
  (void)not_tried;
  return true;
#else
  std::printf("SKIPPED: %s: malloc is a sanitizer's, or not that of a shared glibc, which alone can be replaced\n",
              not_tried.c_str());
  return false;
#endif
}

}  // namespace linnet::test

#ifdef LINNET_CAN_REPLACE_MALLOC

namespace {

/// Whether the request is to be served.
bool count_allocation(size_t bytes) {
  using namespace linnet::test;
  if (counting) ++(bytes < large_size ? small_calls : large_calls);
  if (requests_before_failure == kNone) return true;
  return --requests_before_failure != kNone;
}

void* add_up(void* memory) {
  using namespace linnet::test;
  if (!adding_up || memory == nullptr) return memory;
  live_bytes += static_cast<int64_t>(malloc_usable_size(memory));
  peak_bytes = std::max(peak_bytes, live_bytes);
  return memory;
}

void take_off(void* memory) {
  using namespace linnet::test;
  if (adding_up && memory != nullptr) live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
}

/// What `malloc` does where there is no memory.
void* no_memory() {
  errno = ENOMEM;
  return nullptr;
}

void count_mmap() {
  if (linnet::test::counting) ++linnet::test::mmap_calls;
}

}  // namespace

// Those of a program take the C library's place in all of its libraries, too. What they call is what they replace, so
// that the C library's free takes it back.

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): glibc's names
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(size_t bytes) noexcept { return count_allocation(bytes) ? add_up(__libc_malloc(bytes)) : no_memory(); }

void free(void* memory) noexcept {
  take_off(memory);
  __libc_free(memory);
}

void* calloc(size_t count, size_t bytes) noexcept {
  return count_allocation(count * bytes) ? add_up(__libc_calloc(count, bytes)) : no_memory();
}

void* realloc(void* memory, size_t bytes) noexcept {
  if (!count_allocation(bytes)) return no_memory();
  take_off(memory);
  return add_up(__libc_realloc(memory, bytes));
}

void* memalign(size_t alignment, size_t bytes) noexcept {
  return count_allocation(bytes) ? add_up(__libc_memalign(alignment, bytes)) : no_memory();
}

void* aligned_alloc(size_t alignment, size_t bytes) noexcept { return memalign(alignment, bytes); }

int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  const bool is_power_of_two = alignment != 0 && (alignment & (alignment - 1)) == 0;
  if (!is_power_of_two || alignment % sizeof(void*) != 0) return EINVAL;
  void* const block = memalign(alignment, bytes);
  if (block == nullptr) return ENOMEM;
  *memory = block;
  return 0;
}

void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) noexcept {
  static const auto replaced = reinterpret_cast<decltype(&mmap)>(dlsym(RTLD_NEXT, "mmap"));
  count_mmap();
  return replaced(address, bytes, protection, flags, file, offset);
}

void* mmap64(void* address, size_t bytes, int protection, int flags, int file, off64_t offset) noexcept {
  static const auto replaced = reinterpret_cast<decltype(&mmap64)>(dlsym(RTLD_NEXT, "mmap64"));
  count_mmap();
  return replaced(address, bytes, protection, flags, file, offset);
}

}  // extern "C"

#endif
