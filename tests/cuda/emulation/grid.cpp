#include "grid.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "failure.h"
#include "fiber.h"

namespace linnet::emulation {

Index threadIdx, blockIdx, blockDim, gridDim;

namespace {

void run_thread();

struct Thread {
  explicit Thread(size_t number) : fiber(run_thread, number) {}

  Fiber fiber;
  Call call = Call::exit;  ///< the call in which it waits
  bool vote = false;
  uint64_t given = 0, received = 0;
  unsigned source = 0;
  uint64_t of_warp = 0;  ///< a hash of its expect_of_warp()
};

struct SharedVariable {
  void* data;
  size_t bytes;
};

std::vector<std::unique_ptr<Thread>> threads;
Thread* current = nullptr;
const std::function<void()>* work = nullptr;
std::vector<SharedVariable> shared;
bool all_voted = false;

void wait_at(Call call) {
  current->call = call;
  current->fiber.pause();
}

void run_thread() {
  for (;;) {
    (*work)();
    wait_at(Call::exit);
  }
}

bool is_reverse() {
  const char* order = std::getenv("LINNET_EMULATION_ORDER");
  if (order == nullptr || std::strcmp(order, "forward") == 0) return false;
  if (std::strcmp(order, "reverse") != 0) fail("LINNET_EMULATION_ORDER=%s must be forward or reverse", order);
  return true;
}

/// The i-th to be run of `count`.
unsigned in_order(unsigned i, unsigned count) {
  static const bool reverse = is_reverse();
  return reverse ? count - 1 - i : i;
}

const char* name_of(Call call) {
  static constexpr const char* kNames[] = {"__shfl_sync",   "__shfl_xor_sync",   "__shfl_up_sync",
                                           "mma",           "ldmatrix",          "__syncwarp",
                                           "__syncthreads", "__syncthreads_and", "its end"};
  return kNames[static_cast<int>(call)];
}

bool is_of_block(Call call) { return call >= Call::syncthreads; }

/// The call in which all `count` threads from `first` on wait.
Call common_call(unsigned first, unsigned count) {
  const Call call = threads[first]->call;
  for (unsigned t = first + 1; t < first + count; ++t) {
    const Call other = threads[t]->call;
    if (other == call) continue;
    fail("thread %u waits at %s, and thread %u at %s", first, name_of(call), t, name_of(other));
  }
  return call;
}

/// Runs a warp until its lanes wait for the block, or have ended.
void run_warp(unsigned first) {
  const unsigned count = std::min(kWarp, blockDim.x - first), end = first + count;
  for (;;) {
    for (unsigned i = 0; i < count; ++i) {
      threadIdx.x = first + in_order(i, count);
      current = threads[threadIdx.x].get();
      current->fiber.resume();
    }
    for (unsigned t = first; t < end; ++t) {
      if (threads[t]->of_warp != threads[first]->of_warp)
        fail("threads %u and %u differ in their products", first, t);
    }
    const Call call = common_call(first, count);
    if (is_of_block(call)) return;
    for (unsigned t = first; t < end; ++t) threads[t]->received = threads[first + threads[t]->source]->given;
  }
}

void run_block() {
  const unsigned count = blockDim.x, warps = (count + kWarp - 1) / kWarp;
  shared.clear();
  do {
    for (unsigned i = 0; i < warps; ++i) run_warp(in_order(i, warps) * kWarp);
    all_voted = std::all_of(threads.begin(), threads.begin() + count, [](const auto& t) { return t->vote; });
  } while (common_call(0, count) != Call::exit);
}

}  // namespace

void run_grid(const Grid& grid, const std::function<void()>& thread) {
  static std::mutex one_at_a_time;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  while (threads.size() < grid.threads) threads.push_back(std::make_unique<Thread>(threads.size()));
  work = &thread;
  running = grid.kernel;
  gridDim.x = std::min(grid.blocks, kMostBlocks);
  blockDim.x = grid.threads;
  for (unsigned b = 0; b < gridDim.x; ++b) {
    blockIdx.x = in_order(b, gridDim.x);
    run_block();
  }
  running = nullptr;
}

bool wait_for_block(Call call, bool vote) {
  current->vote = vote;
  wait_at(call);
  return all_voted;
}

uint64_t exchange(Call call, uint64_t value, unsigned source) {
  current->given = value;
  current->source = source % kWarp;
  wait_at(call);
  return current->received;
}

void wait_for_warp(Call call) { wait_at(call); }

void expect_of_warp(uint64_t what) { current->of_warp = current->of_warp * 1000003 + what + 1; }

unsigned lane() { return threadIdx.x % kWarp; }

void use_shared(void* data, size_t bytes) {
  constexpr size_t kMostBytes = size_t{48} << 10;  // the limit for declared variables
  size_t sum = bytes;
  for (const SharedVariable& variable : shared) {
    if (variable.data == data) return;
    sum += variable.bytes;
  }
  if (sum > kMostBytes) fail("%zu bytes of shared memory, of which a block has %zu", sum, kMostBytes);
  shared.push_back({data, bytes});
  std::memset(data, 0xff, bytes);
}

}  // namespace linnet::emulation
