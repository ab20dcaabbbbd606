#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>
#include <new>
#include <thread>
#include <vector>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/profile.h>
#include <linnet/linnet.h>
#include <sys/mman.h>

#include "tests/support/allocation_count.h"
#include "tests/support/threads.h"

namespace linnet::test {
namespace {

/// Training with the shape of the preset nanogpt-cpu and the step of examples/support/run/training_step.cpp, and
/// dropout.
class Training {
 public:
  explicit Training(const std::string& mechanism)
      : model_(rng_, {.vocabulary = kVocabulary,
                      .context = kContext,
                      .layers = 4,
                      .block = {.attention = {.mechanism = mechanism, .width = 128, .heads = 4}, .dropout = 0.1}}),
        parameters_(model_.parameters()),
        optimizer_(nn::decay_matrices_only(parameters_, 0.1)) {
    for (size_t i = 0; i < text_.size(); ++i) text_[i] = static_cast<int64_t>(i * i) % kVocabulary;
  }

  void step() {
    backward(loss());
    update();
  }

  Tensor loss() {
    const auto [inputs, targets] = nn::random_windows(text_, 12, kContext, {1, step_++});
    return cross_entropy(model_(inputs), targets);
  }

  /// Clips the gradients, makes AdamW's step and drops them.
  void update() {
    const Tensor norm = nn::grad_norm(parameters_);
    optimizer_.step(
        {.grad_factor = nn::clip_factor(norm, 1), .apply = lt(norm, std::numeric_limits<double>::infinity())});
    optimizer_.zero_grad();
  }

 private:
  static constexpr int64_t kVocabulary = 65, kContext = 64;

  std::vector<int64_t> text_ = std::vector<int64_t>(4096);
  Generator rng_{1};
  nn::DecoderLM model_;
  std::vector<Tensor> parameters_;
  nn::AdamW optimizer_;
  uint64_t step_ = 0;
};

/// The number of steps until the cache has all blocks that a step needs. The first step makes the optimizer's
/// moments, whose blocks the second step then lacks.
constexpr int kWarmUp = 2;

/// The requests of steps to the C library.
struct Asked {
  int64_t small = 0, large = 0, mmaps = 0;

  void add(const AllocationCount& count) {
    small += count.small();
    large += count.large();
    mmaps += count.mmaps();
  }
};

/// The same memory. The compiler cannot know that it is unused; otherwise it may leave out the allocation.
void* kept(void* memory) {
  static void* volatile place;
  place = memory;
  return place;
}

/// Makes a step, and returns its requests.
Asked asked_by_step(Training& training) {
  Asked asked;
  {
    // Smaller than a float for each token and head, larger than a node of the tape or a table of all nodes.
    const AllocationCount count(8192);
    backward(training.loss());
    asked.add(count);
  }
  {
    // The size of the smallest matrix. Lists of all parameters, with up to 200 bytes for each, are smaller.
    const AllocationCount count(32768);
    training.update();
    asked.add(count);
  }
  return asked;
}

/// The least number of ops in a step: the recorded ops of the forward pass, including views, and after it every call
/// of a kernel, without views.
int64_t ops_of_step(Training& training) {
  const int64_t before = live_tape_nodes();
  const Tensor loss = training.loss();
  const int64_t recorded = live_tape_nodes() - before;
  const Profile profile;
  backward(loss);
  training.update();
  return recorded + std::ssize(profile.calls());
}

}  // namespace

TEST_CASE("allocations are counted: every form of new, malloc's kind and mmap, on any thread") {
  if (!allocations_are_counted("the count of allocations")) return;
  constexpr size_t kLarge = 65536;
  const auto asked_by = [](auto&& body) {
    Asked asked;
    const AllocationCount count(kLarge);
    body();
    asked.add(count);
    return asked;
  };
  CHECK(asked_by([] { std::free(kept(std::malloc(kLarge - 1))); }).small == 1);
  CHECK(asked_by([] { std::free(kept(std::malloc(kLarge))); }).small == 0);

  const auto large = [&](auto&& body) { return asked_by(body).large; };
  CHECK(large([] { std::free(kept(std::malloc(kLarge - 1))); }) == 0);
  CHECK(large([] { std::free(kept(std::malloc(kLarge))); }) == 1);
  CHECK(large([] { std::free(kept(std::calloc(kLarge / 8, 8))); }) == 1);
  CHECK(large([] { std::free(kept(std::realloc(kept(std::malloc(8)), kLarge))); }) == 1);
  CHECK(large([] { std::free(kept(std::aligned_alloc(64, kLarge))); }) == 1);
  CHECK(large([] {
          void* memory = nullptr;
          if (posix_memalign(&memory, 64, kLarge) == 0) std::free(kept(memory));
        }) == 1);
  CHECK(large([] { ::operator delete(kept(::operator new(kLarge))); }) == 1);
  CHECK(large([] { ::operator delete[](kept(::operator new[](kLarge))); }) == 1);
  CHECK(large([] { ::operator delete(kept(::operator new(kLarge, std::nothrow))); }) == 1);
  constexpr std::align_val_t kAlignment{64};
  CHECK(large([] { ::operator delete(kept(::operator new(kLarge, kAlignment)), kAlignment); }) == 1);
  CHECK(large([] { std::thread([] { std::free(kept(std::malloc(kLarge))); }).join(); }) == 1);

  CHECK(asked_by([] {
          void* const pages = mmap(nullptr, kLarge, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          munmap(pages, kLarge);
        }).mmaps == 1);
}

TEST_CASE("a warm training step takes no memory for tensors, and few small allocations an op") {
  const WithThreads with(1);
  const bool counted = allocations_are_counted("the allocations of a training step");
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    CAPTURE(mechanism);
    release_cached_memory();  // otherwise a step could use blocks that other tests left
    Training training(mechanism);
    for (int i = 0; i < kWarmUp; ++i) training.step();

    const int64_t requests = memory_stats().requests;  // requests of all sizes
    const Asked asked = asked_by_step(training);
    CHECK(memory_stats().requests == requests);
    if (!counted) continue;
    CHECK(asked.large == 0);
    CHECK(asked.mmaps == 0);
    if (mechanism == "reformer") continue;  // it sorts tokens by ops that are not recorded
    CHECK(asked.small < 10 * ops_of_step(training));
  }
}

// Which thread gets a task is random, and a thread allocates its working memory for a kind of task at the first such
// task. So any step may have allocations, but only for working memory, and only small ones.
TEST_CASE("with several threads training takes no more memory than what each thread keeps") {
  constexpr int kThreads = 4, kSteps = 10;
  constexpr int64_t kKept = int64_t{2} << 20;  // core/device/allocator.h
  const WithThreads with(kThreads);
  const bool counted = allocations_are_counted("the allocations of training with several threads");
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    CAPTURE(mechanism);
    release_cached_memory();  // otherwise a step could use blocks that other tests left
    Training training(mechanism);
    for (int i = 0; i < kWarmUp; ++i) training.step();

    const MemoryStats before = memory_stats();
    for (int i = 0; i < kSteps; ++i) {
      const int64_t requests = memory_stats().requests;
      const Asked asked = asked_by_step(training);
      const MemoryStats after = memory_stats();
      CHECK(after.live == before.live);
      CHECK(after.cached - before.cached <= (kThreads - 1) * kKept);
      if (!counted) continue;
      CHECK(asked.large <= after.requests - requests);
      CHECK(asked.mmaps == 0);
    }
  }
}

}  // namespace linnet::test
