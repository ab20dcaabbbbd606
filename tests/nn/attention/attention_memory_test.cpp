/// How much memory attentions take between their linear maps.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "tests/support/threads.h"

using namespace linnet;

namespace {

constexpr int64_t kHeads = 4, kTokens = 8192, kHeadDim = 32;

/// The peak memory of forward and backward in bytes, with inputs, parameters and gradients.
int64_t peak_of(const std::string& name) {
  const nn::Mechanism& mechanism = nn::find_mechanism(name);
  const nn::AttentionConfig config{.mechanism = name,
                                   .width = kHeads * kHeadDim,
                                   .heads = kHeads,
                                   .max_tokens = kTokens,
                                   .options = mechanism.options};
  release_cached_memory();
  reset_peak_memory();
  const int64_t before = memory_stats().live;
  Generator rng(1);
  const nn::AttentionCore core = mechanism.core(config, rng, Device::cpu);
  const auto draw = [&] { return randn({1, kHeads, kTokens, kHeadDim}, rng); };
  const Tensor q = draw().set_requires_grad(), k = draw().set_requires_grad(), v = draw().set_requires_grad();
  std::vector<Tensor> inputs{q, k, v};
  inputs.insert(inputs.end(), core.parameters.begin(), core.parameters.end());
  grad({core.attend(q, k, v)}, inputs, {.grad_outputs = {draw()}, .allow_unused = true});
  return memory_stats().peak - before;
}

}  // namespace

TEST_CASE("attention: a mechanism whose time is linear in the tokens takes 400 MiB for 65,536 of them at most") {
  // 12.5 tensors like the queries, of which 8 are inputs, results and gradients. This case has fewer tokens.
  constexpr int64_t kTensor = kHeads * kTokens * kHeadDim * int64_t{sizeof(float)};
  const test::WithThreads with(1);
  for (const char* name :
       {"linear", "performer", "linformer", "longformer", "bigbird", "poolingformer", "reformer", "informer"}) {
    const std::string mechanism = name;
    CAPTURE(mechanism);
    // Reformer sorts up to 2^21 numbers of its heads at a time: all four heads here, but only one with 65,536 tokens.
    // So nine sorted copies are 9 tensors here and 9/4 there.
    const double more = mechanism == "reformer" ? 9 - 9 / 4.0 : 0;
    CHECK(static_cast<double>(peak_of(mechanism)) <= (12.5 + more) * kTensor);
  }
}
