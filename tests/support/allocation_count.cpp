#include "tests/support/allocation_count.h"

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

}  // namespace

AllocationFailure::AllocationFailure(int64_t n) { requests_before_failure = n; }
AllocationFailure::~AllocationFailure() { requests_before_failure = kNone; }
bool AllocationFailure::happened() const { return requests_before_failure == kNone; }

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
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(size_t bytes) noexcept { return count_allocation(bytes) ? __libc_malloc(bytes) : no_memory(); }

void* calloc(size_t count, size_t bytes) noexcept {
  return count_allocation(count * bytes) ? __libc_calloc(count, bytes) : no_memory();
}

void* realloc(void* memory, size_t bytes) noexcept {
  return count_allocation(bytes) ? __libc_realloc(memory, bytes) : no_memory();
}

void* memalign(size_t alignment, size_t bytes) noexcept {
  return count_allocation(bytes) ? __libc_memalign(alignment, bytes) : no_memory();
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
