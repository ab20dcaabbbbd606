#pragma once

#include <functional>

#include <linnet/core/distributed.h>

namespace linnet::test {

/// Calls `body(group)` in `count` threads of this process, each a rank of a group whose messages go through memory.
/// If one of them throws, its exception is thrown here when all have ended; the others must not wait for that rank.
void run_ranks(int count, const std::function<void(ProcessGroup& group)>& body);

}  // namespace linnet::test
