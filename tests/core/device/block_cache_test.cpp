#include <linnet/core/device/block_cache.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

#include <doctest/doctest.h>

#include <linnet/core/device/poison.h>

#include "tests/support/allocation_count.h"

namespace linnet::test {
namespace {

constexpr int64_t kBytes = 1024;

void* take(int64_t bytes) { return std::aligned_alloc(64, static_cast<size_t>(bytes)); }

BlockCache make_cache() {
  return BlockCache({64, take, std::free, [](int64_t, int64_t) {}});
}

}  // namespace

TEST_CASE("block cache: returning a block needs no memory, since destructors do it when memory is short") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  BlockCache cache = make_cache();
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(cache.allocate(kBytes));
  const AllocationFailure failure(0);
  for (void* const block : blocks) cache.deallocate(block, kBytes);
  CHECK_FALSE(failure.happened());
  CHECK(cache.stats().live == 0);
  CHECK(cache.stats().cached == 100 * kBytes);
  cache.release_cached();
}

TEST_CASE("block cache: any request for memory that fails in a hold loses no block") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  bool happened = true;
  for (int64_t n = 0; happened; ++n) {
    CAPTURE(n);
    BlockCache cache({64, take, std::free, [](int64_t, int64_t) { throw std::bad_alloc(); }});
    cache.begin_hold();
    void* block = nullptr;
    {
      const AllocationFailure failure(n);
      try {
        block = cache.allocate(kBytes);
      } catch (const std::bad_alloc&) {
      }
      happened = failure.happened();
    }
    CHECK(cache.stats().live == (block == nullptr ? 0 : kBytes));
    if (block != nullptr) cache.deallocate(block, kBytes);
    cache.let_go(cache.end_hold());
    CHECK(cache.stats().live == 0);
    cache.release_cached();
    CHECK(cache.stats().cached == 0);
  }
}

TEST_CASE("block cache: what is handed out during a hold is handed to nobody else until it is let go") {
  BlockCache cache = make_cache();
  void* const before = cache.allocate(kBytes);
  cache.begin_hold();
  void* const first = cache.allocate(kBytes);
  cache.deallocate(first, kBytes);
  CHECK(cache.allocate(kBytes) == first);  // within a hold, blocks are used again
  void* const kept = cache.allocate(kBytes);
  cache.deallocate(first, kBytes);
  cache.deallocate(before, kBytes);
  const BlockCache::Hold hold = cache.end_hold();
  CHECK(hold.size() == 2);
  CHECK(cache.stats().live == 2 * kBytes);
  CHECK(cache.stats().cached == kBytes);

  void* const after = cache.allocate(kBytes);
  CHECK(after == before);
  void* const fresh = cache.allocate(kBytes);
  CHECK(std::ranges::count(std::vector{before, first, kept}, fresh) == 0);
  CHECK(cache.stats().live == 4 * kBytes);
  cache.release_cached();  // does not free blocks of the hold

  cache.let_go(hold);
  CHECK(cache.stats().live == 3 * kBytes);  // `kept` is still in use
  CHECK(cache.allocate(kBytes) == first);
  cache.deallocate(kept, kBytes);
  CHECK(cache.allocate(kBytes) == kept);
  for (void* block : {after, fresh, first, kept}) cache.deallocate(block, kBytes);
  CHECK(cache.stats().live == 0);
  CHECK(cache.stats().cached == 4 * kBytes);
  cache.release_cached();
}

TEST_CASE("block cache: nothing is given back during a hold") {
  BlockCache cache = make_cache();
  cache.deallocate(cache.allocate(kBytes), kBytes);
  cache.begin_hold();
  cache.release_cached();
  CHECK(cache.stats().cached == kBytes);
  CHECK(cache.end_hold().empty());
  cache.release_cached();
  CHECK(cache.stats().cached == 0);
}

TEST_CASE("block cache: a block that dies after the hold goes back with the others") {
  BlockCache cache = make_cache();
  cache.begin_hold();
  void* const block = cache.allocate(kBytes);
  const BlockCache::Hold hold = cache.end_hold();
  cache.deallocate(block, kBytes);
  CHECK(cache.stats().live == kBytes);
  CHECK(cache.stats().cached == 0);
  cache.let_go(hold);
  CHECK(cache.stats().live == 0);
  CHECK(cache.stats().cached == kBytes);
  cache.release_cached();
}

TEST_CASE("block cache: who refuses is told how large the block was, and may ask what is kept") {
  struct Refused {
    int64_t bytes, live, cached;
  };
  static BlockCache cache({64, [](int64_t bytes) { return bytes > 4 * kBytes ? nullptr : take(bytes); }, std::free,
                           [](int64_t bytes, int64_t live) { throw Refused{bytes, live, cache.stats().cached}; }});
  const auto refused = [] {
    try {
      cache.allocate(5000);
    } catch (const Refused& what) {
      return what;
    }
    return Refused{};
  };
  void* const block = cache.allocate(kBytes);
  cache.deallocate(cache.allocate(2 * kBytes), 2 * kBytes);
  cache.begin_hold();
  const Refused in_hold = refused();
  CHECK(in_hold.bytes == 5120);  // the next multiple of 4096 / 8
  CHECK(in_hold.live == kBytes);
  CHECK(in_hold.cached == 2 * kBytes);
  CHECK(cache.end_hold().empty());
  const Refused after = refused();
  CHECK(after.bytes == 5120);
  CHECK(after.live == kBytes);
  CHECK(after.cached == 0);
  cache.deallocate(block, kBytes);
  cache.release_cached();
  CHECK(cache.stats().live == 0);
  CHECK(cache.block_size(INT64_MAX) == INT64_MAX);  // the next multiple would overflow
}

TEST_CASE("block cache: tensors of ever new sizes do not fill the memory with blocks of older ones") {
  BlockCache cache({64, take, std::free, [](int64_t, int64_t) {}, kBytes});
  void* const live = cache.allocate(8 * kBytes);
  for (int64_t size = 1; size <= 8; ++size) {
    cache.deallocate(cache.allocate(size * kBytes), size * kBytes);
    if (size == 7) CHECK(cache.stats().cached == 28 * kBytes);  // 15 were live, so 31 may be kept
  }
  CHECK(cache.stats().cached == 0);  // 36 would have been more than 2 · 16 + 1
  cache.reset_peak();                // the limit does not depend on this peak, but on the most that was ever live
  for (int64_t size = 1; size <= 7; ++size) cache.deallocate(cache.allocate(size * kBytes), size * kBytes);
  CHECK(cache.stats().cached == 28 * kBytes);
  cache.deallocate(live, 8 * kBytes);
  cache.release_cached();
}

#ifdef LINNET_POISON
TEST_CASE(
    "block cache: AddressSanitizer sees the end of a tensor inside its block, and tensors that were destroyed") {
  BlockCache cache = make_cache();
  const auto is_refused = [](void* block, int64_t byte) {
    return __asan_address_is_poisoned(static_cast<char*>(block) + byte) != 0;
  };
  void* const block = cache.allocate(1000);  // of 1,024 bytes
  CHECK_FALSE(is_refused(block, 999));
  CHECK(is_refused(block, 1000));
  CHECK(is_refused(block, 1023));
  cache.deallocate(block, 1000);
  CHECK(is_refused(block, 0));
  CHECK(cache.allocate(1020) == block);
  CHECK_FALSE(is_refused(block, 1019));
  CHECK(is_refused(block, 1020));
  cache.deallocate(block, 1020);

  cache.begin_hold();
  CHECK(cache.allocate(1000) == block);
  cache.deallocate(block, 1000);
  const BlockCache::Hold hold = cache.end_hold();
  CHECK_FALSE(is_refused(block, 1023));  // recorded work uses all of it
  cache.let_go(hold);
  CHECK(is_refused(block, 0));
  cache.release_cached();
}
#endif

}  // namespace linnet::test
