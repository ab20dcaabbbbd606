#pragma once

#include <functional>
#include <new>
#include <string>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/allocator.h>
#include <linnet/core/error.h>
#include <linnet/core/memory_stats.h>

#include "tests/support/allocation_count.h"

namespace linnet::test {

/// Calls `work` until it completes. In call n, its allocation n fails. After each call, `check` learns whether an
/// error was thrown, and restores the state before the call; then no allocation may be left that was not there
/// before. Returns the number of calls. (A first call, in which nothing fails, makes the allocations that are kept
/// for the life of the process.)
inline int64_t fail_each_request(const std::function<void()>& work, const std::function<void(bool failed)>& check) {
  work();
  check(false);
  const MemoryUse use;
  for (int64_t n = 0;; ++n) {
    CAPTURE(n);
    cpu_memory::release_cached();  // so that tensors allocate too
    const int64_t blocks = use.blocks(), live = memory_stats().live, nodes = live_tape_nodes();
    bool failed = false, happened = false;
    {
      const AllocationFailure failure(n);
      try {
        work();
      } catch (const std::bad_alloc&) {  // of the standard library's objects; tensors throw MemoryError
        failed = true;
      } catch (const Error& error) {
        failed = true;
        const std::string text = error.what();
        CAPTURE(text);
        CHECK((text.find("memory") != std::string::npos || text.find("Cannot allocate") != std::string::npos));
      }
      happened = failure.happened();
    }
    check(failed);
    REQUIRE(memory_stats().live == live);
    REQUIRE(live_tape_nodes() == nodes);
    cpu_memory::release_cached();
    REQUIRE(use.blocks() == blocks);
    if (!happened) {
      CHECK_FALSE(failed);
      return n + 1;
    }
  }
}

}  // namespace linnet::test
