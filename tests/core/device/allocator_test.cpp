#include <linnet/core/device/allocator.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/error.h>
#include <linnet/core/memory_stats.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/array/arithmetic.h>

#include "tests/support/allocation_count.h"
#include "tests/support/values.h"

namespace linnet::test {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

Tensor mebibytes(int64_t count) { return Tensor::empty({count * kMebibyte / 8}, DType::float64); }

}  // namespace

TEST_CASE("allocator: live, peak and cached bytes") {
  release_cached_memory();
  reset_peak_memory();
  const MemoryStats start = memory_stats();
  CHECK(start.cached == 0);
  CHECK(start.peak == start.live);
  {
    const Tensor a = mebibytes(2);
    CHECK(memory_stats().live == start.live + 2 * kMebibyte);
    const Tensor view = a.narrow(0, 0, 5);
    CHECK(memory_stats().live == start.live + 2 * kMebibyte);
    const Tensor b = mebibytes(1);
    CHECK(memory_stats().peak == start.live + 3 * kMebibyte);
  }
  const MemoryStats end = memory_stats();
  CHECK(end.live == start.live);
  CHECK(end.peak == start.live + 3 * kMebibyte);
  CHECK(end.cached == 3 * kMebibyte);
  reset_peak_memory();
  CHECK(memory_stats().peak == start.live);
  release_cached_memory();
  CHECK(memory_stats().cached == 0);
}

TEST_CASE("allocator: a freed block serves the next tensor of about its size") {
  release_cached_memory();
  const void* block = detail::view(mebibytes(1)).data;
  const int64_t requests = memory_stats().requests;
  const Tensor again = Tensor::empty({kMebibyte - 1000}, DType::boolean);
  CHECK(detail::view(again).data == block);
  CHECK(memory_stats().cached == 0);
  CHECK(memory_stats().requests == requests);
  const Tensor other = mebibytes(1);
  CHECK(detail::view(other).data != block);
  CHECK(memory_stats().requests == requests + 1);
}

TEST_CASE("allocator: blocks are aligned, waste at most an eighth, and exist for empty tensors") {
  for (const int64_t bytes : {0, 1, 63, 64, 65, 1000, 4097, 100'000, 1'000'003}) {
    CAPTURE(bytes);
    const int64_t before = memory_stats().live;
    const Tensor x = Tensor::empty({bytes}, DType::boolean);
    const int64_t taken = memory_stats().live - before;
    CHECK(reinterpret_cast<uintptr_t>(detail::view(x).data) % 64 == 0);
    CHECK(taken >= bytes);
    CHECK(taken <= bytes + bytes / 8 + 64);
  }
}

TEST_CASE("allocator: working memory stays with its thread") {
  release_cached_memory();
  const MemoryStats start = memory_stats();
  void* const block = cpu_memory::allocate_scratch(1000);
  CHECK(memory_stats().live == start.live + 1024);
  cpu_memory::deallocate_scratch(block, 1000);
  CHECK(memory_stats().live == start.live);
  CHECK(memory_stats().cached == 1024);
  std::thread([&] {
    void* const other = cpu_memory::allocate_scratch(1000);
    CHECK(other != block);
    cpu_memory::deallocate_scratch(other, 1000);
    CHECK(memory_stats().cached == 2 * 1024);
  }).join();
  CHECK(memory_stats().cached == 2 * 1024);
  CHECK(cpu_memory::allocate_scratch(1000) == block);
  cpu_memory::deallocate_scratch(block, 1000);
  release_cached_memory();
  CHECK(memory_stats().cached == 0);
  CHECK(memory_stats().live == start.live);
}

TEST_CASE("allocator: what a thread destroys last may need working memory") {
  release_cached_memory();
  const int64_t live = memory_stats().live;
  const auto use = [] { cpu_memory::deallocate_scratch(cpu_memory::allocate_scratch(1000), 1000); };
  std::thread([&] {
    struct Last {
      const decltype(use)* f = nullptr;
      ~Last() { (*f)(); }
    };
    thread_local Last last;
    last.f = &use;
    use();  // the thread's own memory is then destroyed first
  }).join();
  CHECK(memory_stats().live == live);
  release_cached_memory();
  CHECK(memory_stats().cached == 0);
}

TEST_CASE("allocator: a thread keeps the working memory that it gave back last, up to 2 MiB") {
  release_cached_memory();
  const auto use = [](std::vector<int64_t> sizes) {
    std::vector<void*> blocks;
    for (const int64_t size : sizes) blocks.push_back(cpu_memory::allocate_scratch(size));
    for (size_t i = 0; i < sizes.size(); ++i) cpu_memory::deallocate_scratch(blocks[i], sizes[i]);
    return blocks;
  };
  const std::vector<void*> blocks = use({3 * kMebibyte, kMebibyte, kMebibyte / 2, kMebibyte});
  CHECK(memory_stats().cached == 5 * kMebibyte + kMebibyte / 2);
  CHECK(detail::view(mebibytes(1)).data == blocks[1]);  // the oldest block that the thread did not keep
  CHECK(detail::view(mebibytes(3)).data == blocks[0]);
  CHECK(use({kMebibyte, kMebibyte / 2}) == std::vector<void*>{blocks[3], blocks[2]});
}

TEST_CASE("allocator: a request that cannot be met says what was asked and what is live") {
  release_cached_memory();
  const MemoryStats before = memory_stats();
  const auto text = [](const Shape& shape) -> std::string {
    try {
      Tensor::empty(shape, DType::float64);
    } catch (const MemoryError& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  const std::string live = std::to_string(before.live);
  // The system is asked for a whole block, here 2^60 bytes and an eighth more.
  CHECK(text({(int64_t{1} << 57) + 1})
            .starts_with("empty: out of memory: asked for 1297036692682702848 bytes with " + live +
                         " bytes live in tensors and recordings and 0 kept for reuse; use a smaller batch"));
  cpu_memory::deallocate_scratch(cpu_memory::allocate_scratch(1000), 1000);  // this thread keeps it
  CHECK(text({int64_t{1} << 57}).find(live + " bytes live in tensors and recordings and 1024 kept for reuse;") !=
        std::string::npos);
  CHECK(text({(int64_t{1} << 60) - 1}).find("asked for 9223372036854775807 bytes") != std::string::npos);
  CHECK(text({int64_t{1} << 60}).find("bytes") != std::string::npos);
  CHECK_THROWS_AS(Tensor::empty({int64_t{1} << 40, int64_t{1} << 40}), MemoryError);
  CHECK_THROWS_AS(Tensor::empty({int64_t{1} << 62, 4}), MemoryError);
  CHECK(memory_stats().live == before.live);
}

TEST_CASE("allocator: memory and nodes stay flat over repeated steps") {
  Tensor weight = uniform({64, 64}, 1).set_requires_grad();
  const auto step = [&] {
    Tensor y = weight;
    for (int i = 0; i < 5; ++i) y = mul(y, weight);
    backward(y, {.grad = uniform({64, 64}, 2)});
    weight.set_grad({});
  };
  step();
  const MemoryStats warm = memory_stats();
  const int64_t nodes = live_tape_nodes();
  for (int i = 0; i < 20; ++i) step();
  CHECK(memory_stats().live == warm.live);
  CHECK(memory_stats().cached == warm.cached);
  CHECK(live_tape_nodes() == nodes);
}

TEST_CASE("allocator: a forked child takes over the working memory of threads that it does not have") {
  constexpr int kThreads = 16;  // more than the C library keeps the stacks of when they have ended
  /// Threads that keep working memory until they are joined.
  const auto with_threads = [](const std::function<void()>& body) {
    std::latch started(kThreads + 1), ending(1);
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        cpu_memory::deallocate_scratch(cpu_memory::allocate_scratch(1000), 1000);
        started.arrive_and_wait();
        ending.wait();
      });
    }
    started.arrive_and_wait();
    body();
    ending.count_down();
    for (std::thread& thread : threads) thread.join();
  };
  const auto status_of_child = [](const std::function<bool()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);  // ends a child that waits for a lock for ever
      _exit(body() ? 0 : 1);
    }
    int status = 0;
    return waitpid(child, &status, 0) == child ? status : -1;
  };
  with_threads([&] {
    const int64_t cached = memory_stats().cached;
    const int status = status_of_child([&] {
      if (memory_stats().cached != cached) return false;
      int of_grandchild = 1;
      with_threads([&] { of_grandchild = status_of_child([] { return true; }); });  // may be on the same stacks
      release_cached_memory();
      return of_grandchild == 0 && memory_stats().cached == 0;
    });
    CHECK(status == 0);
  });
}

TEST_CASE("allocator: threads share it") {
  const int64_t before = memory_stats().live;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 500; ++i) Tensor::empty({(i * 37 + t) % 5000}).fill_(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(memory_stats().live == before);
}

TEST_CASE("allocator: working memory that a thread has no memory to note is given back") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const int64_t live = memory_stats().live;
  std::thread([] {  // a new thread, whose list is still empty
    void* const block = cpu_memory::allocate_scratch(1000);
    const AllocationFailure failure(0);
    cpu_memory::deallocate_scratch(block, 1000);
    CHECK(failure.happened());
  })
      .join();
  CHECK(memory_stats().live == live);
}

}  // namespace linnet::test
