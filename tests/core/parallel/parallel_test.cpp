#include <linnet/core/parallel/parallel.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/tensor.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>

#include "tests/support/allocation_count.h"
#include "tests/support/child_program.h"
#include "tests/support/threads.h"

namespace linnet::test {
namespace {

double harmonic_sum(int64_t count, int64_t grain) {
  std::vector<double> pieces(static_cast<size_t>((count + grain - 1) / grain));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t i = begin; i < end; ++i) sum += 1.0 / static_cast<double>(i + 1);
    pieces[static_cast<size_t>(begin / grain)] = sum;
  });
  double total = 0;
  for (const double piece : pieces) total += piece;
  return total;
}

/// Created before all statics of the library, and so destroyed after them, as a user's own static might be.
struct LoopAtExit {
  ~LoopAtExit() {
    std::atomic<int> runs{0};
    parallel_tasks(64, [&](int64_t) { ++runs; });
    if (runs != 64) std::_Exit(1);
  }
} const loop_at_exit;

}  // namespace

TEST_CASE("parallel: every task runs once, for any number of threads") {
  for (const int threads : {1, 2, 4, 7}) {
    const WithThreads with(threads);
    for (const int64_t count : {0, 1, 2, 3, 100, 10'000}) {
      CAPTURE(threads);
      CAPTURE(count);
      std::vector<std::atomic<int>> runs(static_cast<size_t>(count));
      parallel_tasks(count, [&](int64_t task) { ++runs[static_cast<size_t>(task)]; });
      bool once = true;
      for (const auto& number : runs) once = once && number == 1;
      CHECK(once);
    }
  }
}

TEST_CASE("parallel: pieces cover the range, whatever the grain") {
  for (const int64_t grain : {1, 3, 10, 100}) {
    std::vector<std::atomic<int>> runs(10);
    parallel_for(10, grain, [&](int64_t begin, int64_t end) {
      CHECK(end - begin <= grain);
      for (int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i)];
    });
    for (const auto& number : runs) CHECK(number == 1);
  }
}

TEST_CASE("parallel: a sum per piece has the same bits at 1, 2 and 4 threads") {
  std::vector<double> sums;
  for (const int threads : {1, 2, 4, 4, 2}) {
    const WithThreads with(threads);
    sums.push_back(harmonic_sum(1'000'003, 1000));
  }
  for (const double sum : sums) CHECK(sum == sums[0]);
  CHECK(std::abs(sums[0] - (std::log(1'000'003.0) + 0.5772156649015329)) < 1e-6);
}

TEST_CASE("parallel: several threads do take part") {
  const WithThreads with(4);
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  parallel_tasks(4, [&](int64_t) {
    const int now = ++inside;
    for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    --inside;
  });
  CHECK(most >= 2);
}

TEST_CASE("parallel: workers sleep when there is no work") {
  const WithThreads with(3);
  std::atomic<int> runs{0};
  parallel_tasks(100, [&](int64_t) { ++runs; });
  REQUIRE(runs == 100);
  const auto processor_time = [] {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  };
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // first they spin for a moment
  const auto before = processor_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  CHECK(processor_time() - before < std::chrono::milliseconds(10));
}

TEST_CASE("parallel: a worker leaves the caller's core, where there is another") {
  const WithThreads with(2);
  struct Place {
    int core = -1;
    cpu_set_t allowed{};
  };
  // The worker's affinity, from a loop with one task for each of the two threads.
  const auto place_of_worker = [caller = std::this_thread::get_id()] {
    Place place;
    std::atomic<int> arrived{0};
    parallel_tasks(2, [&](int64_t) {
      for (++arrived; arrived < 2;) std::this_thread::yield();
      if (std::this_thread::get_id() == caller) return;
      place.core = sched_getcpu();
      sched_getaffinity(0, sizeof place.allowed, &place.allowed);
    });
    return place;
  };
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  bool left = false;
  for (int attempt = 0; attempt < 10 && !left; ++attempt) {  // since Linux may move the caller meanwhile
    const int core = place_of_worker().core;
    cpu_set_t there;
    CPU_ZERO(&there);
    CPU_SET(static_cast<size_t>(core), &there);
    REQUIRE(sched_setaffinity(0, sizeof there, &there) == 0);
    REQUIRE(sched_setaffinity(0, sizeof all, &all) == 0);
    const Place then = place_of_worker();
    left = CPU_ISSET(static_cast<size_t>(core), &then.allowed) == 0;
  }
  CHECK(left == (CPU_COUNT(&all) > 1));
}

TEST_CASE("parallel: an exception ends the loop and reaches the caller, and the pool goes on") {
  const WithThreads with(4);
  int cut_short = 0;  // not always: the thread that throws may be descheduled while the others continue
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::atomic<int> runs{0};
    const auto loop = [&] {
      parallel_tasks(100'000, [&](int64_t task) {
        ++runs;
        if (task == 5) throw ValueError("task 5");
      });
    };
    CHECK_THROWS_WITH_AS(loop(), "task 5", ValueError);
    cut_short += runs < 100'000;
    std::atomic<int> after{0};
    parallel_tasks(64, [&](int64_t) { ++after; });
    CHECK(after == 64);
  }
  CHECK(cut_short > 0);
  CHECK_THROWS_AS(parallel_tasks(8, [](int64_t) { throw std::runtime_error("all"); }), std::runtime_error);
}

TEST_CASE("parallel: an error names the call that made the loop, whichever thread it comes from") {
  const WithThreads with(2);
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> thrown{false};
  const auto loop = [&] {
    const Call call("outer", Where("folder/file.cpp", 7));
    parallel_tasks(2, [&](int64_t) {
      if (std::this_thread::get_id() != caller) {
        thrown = true;
        throw ValueError("text");
      }
      for (int i = 0; i < 1000 && !thrown; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  };
  CHECK_THROWS_WITH_AS(loop(), "outer: text (file.cpp:7)", ValueError);
}

TEST_CASE("parallel: what is destroyed when the program ends may run loops") {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const test::Ended ended = run_program(self, {"--no-colors", "--test-case=parallel: pieces cover the range*"});
  CHECK(ended.code == 0);
  CHECK(ended.out.find(" 1 passed | 0 failed") != std::string::npos);  // it leaves a thread pool
}

TEST_CASE("parallel: loops nest") {
  const WithThreads with(4);
  std::atomic<int> runs{0};
  parallel_tasks(
      8, [&](int64_t) { parallel_for(100, 7, [&](int64_t begin, int64_t end) { runs += int(end - begin); }); });
  CHECK(runs == 800);
}

TEST_CASE("parallel: two user threads at once") {
  const WithThreads with(4);
  std::vector<double> sums(2);
  std::vector<std::thread> users;
  for (size_t user = 0; user < 2; ++user) {
    users.emplace_back([&sums, user] {
      for (int i = 0; i < 200; ++i) sums[user] = harmonic_sum(20'000, 100);
    });
  }
  for (std::thread& user : users) user.join();
  CHECK(sums[0] == sums[1]);
  CHECK(sums[0] == harmonic_sum(20'000, 100));
}

TEST_CASE("parallel: a child that was forked after loops has threads of its own") {
  constexpr int kThreads = 3;
  const WithThreads with(kThreads);
  // Each thread waits in its first task until all have one; if there are fewer threads, until the timeout.
  const auto threads_taking_part = [] {
    std::atomic<int> waiting{0};
    parallel_tasks(kThreads, [&](int64_t) {
      ++waiting;
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (waiting < kThreads && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (waiting < kThreads) waiting = -kThreads;
    });
    return waiting.load();
  };
  REQUIRE(threads_taking_part() == kThreads);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // workers no longer spin, but sleep
  const double sum = harmonic_sum(20'000, 100);
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      const bool whole = i > 0 || threads_taking_part() == kThreads;
      _exit(whole && harmonic_sum(20'000, 100) == sum ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    CHECK(harmonic_sum(20'000, 100) == sum);
  }
}

TEST_CASE("parallel: a child that is forked while other threads run ops can run ops") {
  std::atomic<bool> ended{false};
  std::vector<std::thread> users;
  for (int user = 0; user < 2; ++user) {
    users.emplace_back([&] {
      const Tensor x = ones({8});
      while (!ended) (x * 2 + x).sum();
    });
  }
  int hung = 0;
  for (int i = 0; i < 300 && hung == 0; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);  // ends a child that waits for a lock of a thread that the child does not have
      const Tensor x = ones({8});
      _exit((x * 2 + x).sum().item<float>() == 24 ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    hung += static_cast<int>(status != 0);
  }
  ended = true;
  for (std::thread& user : users) user.join();
  CHECK(hung == 0);
}

TEST_CASE("parallel: tasks follow the caller's NoGrad and AnomalyMode on every thread") {
  const WithThreads with(4);
  const Tensor w = zeros({2}).set_requires_grad();
  std::vector<Tensor> results(64);
  const auto record = [&](int64_t i) {
    results[static_cast<size_t>(i)] = w * 2;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that each thread has tasks
  };
  {
    const NoGrad no_grad;
    parallel_tasks(64, record);
  }
  CHECK(std::ranges::none_of(results, &Tensor::requires_grad));
  parallel_tasks(64, record);
  CHECK(std::ranges::all_of(results, &Tensor::requires_grad));

  const AnomalyMode mode;
  std::atomic<int> found{0};
  parallel_tasks(64, [&](int64_t) {
    try {
      log(w - 1);
    } catch (const ValueError&) {
      ++found;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  CHECK(found == 64);
}

TEST_CASE("parallel: the number of threads") {
  const WithThreads with(3);
  CHECK(num_threads() == 3);
  CHECK_THROWS_AS(set_num_threads(0), ValueError);
  CHECK_THROWS_AS(set_num_threads(-2), ValueError);
  CHECK(num_threads() == 3);
  for (const int threads : {3, 1}) {
    set_num_threads(threads);
    CHECK(describe_threads() == std::to_string(threads) + " threads (set by the program)");
    CHECK_THROWS_AS(parallel_tasks(4, [](int64_t) { set_num_threads(2); }), ValueError);
  }
}

TEST_CASE("parallel: a pool that lacks memory for a thread does with fewer") {
  if (!allocations_are_counted("requests for memory that fail")) return;
  const WithThreads with(4);
  bool happened = true;
  for (int64_t n = 0; happened; ++n) {
    CAPTURE(n);
    set_num_threads(1);  // ends the pool
    set_num_threads(4);
    std::atomic<int> runs{0};
    {
      const AllocationFailure failure(n);
      try {
        parallel_tasks(64, [&](int64_t) { ++runs; });
      } catch (const std::bad_alloc&) {
      }
      happened = failure.happened();
    }
    runs = 0;
    parallel_tasks(64, [&](int64_t) { ++runs; });
    REQUIRE(runs == 64);
  }
}

}  // namespace linnet::test
