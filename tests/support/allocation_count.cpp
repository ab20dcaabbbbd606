#include "tests/support/allocation_count.h"

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <dlfcn.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

namespace linnet::test {
namespace {

// constinit, since malloc is called before the constructors of static objects run.
constinit std::atomic<bool> counting{false};
constinit std::atomic<size_t> large_size{0};
constinit std::atomic<int64_t> small_calls{0}, large_calls{0}, mmap_calls{0};

constexpr int64_t kNeverFails = -1;
constinit thread_local int64_t requests_before_failure = kNeverFails;

constinit std::atomic<bool> tracks_live_bytes{false};
constinit std::atomic<int64_t> live_bytes{0}, peak_bytes{0}, live_blocks{0};

}  // namespace

AllocationFailure::AllocationFailure(int64_t n) { requests_before_failure = n; }
AllocationFailure::~AllocationFailure() { requests_before_failure = kNeverFails; }
bool AllocationFailure::happened() const { return requests_before_failure == kNeverFails; }

MemoryUse::MemoryUse() {
  live_bytes = peak_bytes = live_blocks = 0;
  tracks_live_bytes = true;
}
MemoryUse::~MemoryUse() { tracks_live_bytes = false; }
int64_t MemoryUse::live() const { return live_bytes; }
int64_t MemoryUse::peak() const { return peak_bytes; }
int64_t MemoryUse::blocks() const { return live_blocks; }

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
  std::printf(
      "SKIPPED: %s: malloc can be replaced only in a program that links glibc dynamically and has no sanitizer\n",
      not_tried.c_str());
  return false;
#endif
}

}  // namespace linnet::test

#ifdef LINNET_CAN_REPLACE_MALLOC

namespace {

/// Whether a request comes from OpenBLAS. Its kernels for small products with AVX-512 allocate scratch memory, and
/// write to it without checking that the allocation succeeded.
bool is_from_openblas(const void* caller) {
  Dl_info library;
  return dladdr(caller, &library) != 0 && library.dli_fname != nullptr &&
         std::strstr(library.dli_fname, "openblas") != nullptr;
}

/// Counts a request. Returns false if AllocationFailure makes it fail.
bool count_allocation(size_t bytes, const void* caller) {
  using namespace linnet::test;
  if (counting) ++(bytes < large_size ? small_calls : large_calls);
  if (requests_before_failure == kNeverFails || is_from_openblas(caller)) return true;
  return --requests_before_failure != kNeverFails;
}

/// Adds a new allocation to the live bytes, and returns it.
void* add_to_live(void* memory) {
  using namespace linnet::test;
  if (!tracks_live_bytes || memory == nullptr) return memory;
  const auto bytes = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t live = live_bytes += bytes;
  ++live_blocks;
  for (int64_t peak = peak_bytes; peak < live && !peak_bytes.compare_exchange_weak(peak, live);) {
  }
  return memory;
}

/// Subtracts an allocation that is about to be freed from the live bytes.
void subtract_from_live(void* memory) {
  using namespace linnet::test;
  if (!tracks_live_bytes || memory == nullptr) return;
  live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  --live_blocks;
}

/// The result of malloc when memory has run out: null, with errno ENOMEM.
void* out_of_memory() {
  errno = ENOMEM;
  return nullptr;
}

void count_mmap() {
  if (linnet::test::counting) ++linnet::test::mmap_calls;
}

}  // namespace

// Symbol interposition: a program's definitions of these functions replace those of the C library, also for the
// shared libraries that the program loads. Each calls glibc's implementation of the function that it replaces, so
// that glibc can free what it allocates.

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): glibc's names
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void __libc_free(void* memory);
// NOLINTEND(bugprone-reserved-identifier)

void* malloc(size_t bytes) noexcept {
  return count_allocation(bytes, __builtin_return_address(0)) ? add_to_live(__libc_malloc(bytes)) : out_of_memory();
}

void free(void* memory) noexcept {
  subtract_from_live(memory);
  __libc_free(memory);
}

void* calloc(size_t count, size_t bytes) noexcept {
  return count_allocation(count * bytes, __builtin_return_address(0)) ? add_to_live(__libc_calloc(count, bytes))
                                                                      : out_of_memory();
}

void* realloc(void* memory, size_t bytes) noexcept {
  if (!count_allocation(bytes, __builtin_return_address(0))) return out_of_memory();
  subtract_from_live(memory);
  return add_to_live(__libc_realloc(memory, bytes));
}

void* memalign(size_t alignment, size_t bytes) noexcept {
  return count_allocation(bytes, __builtin_return_address(0)) ? add_to_live(__libc_memalign(alignment, bytes))
                                                              : out_of_memory();
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
