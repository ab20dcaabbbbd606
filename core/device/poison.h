#pragma once

#include <cstdint>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LINNET_POISON 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define LINNET_POISON 1
#endif

#ifdef LINNET_POISON
#include <sanitizer/asan_interface.h>
#endif

/// Memory that AddressSanitizer must report when it is used. It sees a block of a cache as one allocation, so without
/// this a read beyond the end of a tensor, or of a destroyed tensor, would not be noticed. In other builds these do
/// nothing.

namespace linnet::detail {

/// The first `bytes` of a block of `size` bytes may be used, and the rest may not.
inline void allow_use([[maybe_unused]] void* block, [[maybe_unused]] int64_t bytes, [[maybe_unused]] int64_t size) {
#ifdef LINNET_POISON
  ASAN_UNPOISON_MEMORY_REGION(block, static_cast<size_t>(bytes));
  ASAN_POISON_MEMORY_REGION(static_cast<char*>(block) + bytes, static_cast<size_t>(size - bytes));
#endif
}

}  // namespace linnet::detail
