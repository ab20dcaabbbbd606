#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/linnet.h>

using namespace linnet;

TEST_CASE("training holds no more memory and no more tape after 200 steps than after 2") {
  const nn::CharText text("to be, or not to be: that is the question. Whether 'tis nobler in the mind to suffer");
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    CAPTURE(mechanism);
    Generator rng(1);
    nn::DecoderLM model(rng,
                        {.vocabulary = text.vocabulary().size(),
                         .context = 8,
                         .layers = 2,
                         .block = {.attention = {.mechanism = mechanism, .width = 16, .heads = 2}, .dropout = 0.1}});
    nn::AdamW optimizer(model.parameters());
    const auto train_step = [&](uint64_t step) {
      const auto [inputs, targets] = nn::random_windows(text.train(), 3, 8, {1, step});
      backward(cross_entropy(model(inputs), targets));
      nn::clip_grad_norm_(model.parameters(), 1);
      optimizer.step();
      optimizer.zero_grad();
    };
    for (uint64_t step = 0; step < 2; ++step) train_step(step);  // the first step makes the optimizer's moments
    const int64_t live = memory_stats().live;
    const int64_t nodes = live_tape_nodes();
    for (uint64_t step = 2; step < 200; ++step) {
      train_step(step);
      REQUIRE(memory_stats().live == live);
      REQUIRE(live_tape_nodes() == nodes);
    }
  }
}
