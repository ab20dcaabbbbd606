#include <doctest/doctest.h>

#include <linnet/core/profile.h>
#include <linnet/core/tape.h>
#include <linnet/linnet.h>

#include "tests/support/allocation_count.h"
#include "tests/support/threads.h"

namespace linnet::test {
namespace {

/// A small nanoGPT and its training, with all that a step has.
class Training {
 public:
  explicit Training(const std::string& mechanism)
      : model_(rng_, {.vocabulary = text_.vocabulary().size(),
                      .context = 32,
                      .layers = 4,
                      .block = {.attention = {.mechanism = mechanism, .width = 32, .heads = 4}, .dropout = 0.1}}),
        optimizer_(model_.parameters()) {}

  void step() {
    const auto [inputs, targets] = nn::random_windows(text_.train(), 4, 32, {1, step_++});
    backward(cross_entropy(model_(inputs), targets));
    nn::clip_grad_norm_(model_.parameters(), 1);
    optimizer_.step();
    optimizer_.zero_grad();
  }

 private:
  nn::CharText text_{"to be, or not to be: that is the question. Whether 'tis nobler in the mind to suffer"};
  Generator rng_{1};
  nn::DecoderLM model_;
  nn::AdamW optimizer_;
  uint64_t step_ = 0;
};

}  // namespace

TEST_CASE("a warm training step takes no memory for tensors, and few small allocations an op") {
  const WithThreads with(1);
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    CAPTURE(mechanism);
    Training training(mechanism);
    for (int i = 0; i < 3; ++i) training.step();  // the first one makes the optimizer's moments

    const int64_t requests = memory_stats().requests, allocations = allocations_so_far();
    training.step();
    CHECK(memory_stats().requests == requests);
    const int64_t small = allocations_so_far() - allocations;

    const Profile profile;
    training.step();
    const auto ops = std::ssize(profile.calls());  // those that compute something: views are free in this count
    CAPTURE(small);
    CAPTURE(ops);
    CHECK(small > 0);
    CHECK(small < 10 * ops);
  }
}

TEST_CASE("with several threads, too, training comes to take no more memory for tensors") {
  const WithThreads with(4);
  Training training("softmax");
  // Each thread has working memory of its own, for each kind of task from the first one that it is in time for.
  for (int steps = 0, quiet = 0; quiet < 5; ++steps) {
    REQUIRE(steps < 500);
    const int64_t requests = memory_stats().requests;
    training.step();
    quiet = memory_stats().requests == requests ? quiet + 1 : 0;
  }
}

}  // namespace linnet::test
