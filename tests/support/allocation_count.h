#pragma once

#include <cstdint>

namespace linnet::test {

/// Calls of `operator new` so far, on all threads: the test program has one of its own that counts.
int64_t allocations_so_far();

}  // namespace linnet::test
