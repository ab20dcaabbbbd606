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

/// Calls `work` until it completes. In call n, its allocation n fails. After each call, `check` gets whether an error
/// was thrown. Returns the number of calls.
inline int64_t fail_each_request(const std::function<void()>& work, const std::function<void(bool failed)>& check) {
  for (int64_t n = 0;; ++n) {
    CAPTURE(n);
    cpu_memory::release_cached();  // so that tensors allocate too
    const int64_t live = memory_stats().live, nodes = live_tape_nodes();
    bool failed = false, happened = false;
    {
      const AllocationFailure failure(n);
      try {
        work();
      } catch (const std::bad_alloc&) {
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
    if (!happened) {
      CHECK_FALSE(failed);
      return n + 1;
    }
  }
}

}  // namespace linnet::test
