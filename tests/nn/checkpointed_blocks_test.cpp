#include <linnet/core/autograd/checkpoint.h>

#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "tests/support/gpu.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

/// Transformer layers whose activations are computed again in backward.

namespace linnet::test {
namespace {

struct Stack : nn::Module {
  Stack(Generator& rng, const std::string& mechanism, int layers, Device device, bool checkpointed_)
      : Module(rng, DType::float32, device), checkpointed(checkpointed_) {
    nn::AttentionConfig attention{.mechanism = mechanism, .width = 16, .heads = 2, .dropout = 0.2, .max_tokens = 64};
    if (mechanism == "informer") attention.options = nn::InformerConfig{.queries = 3};
    for (int i = 0; i < layers; ++i) blocks.add(nn::BlockConfig{.attention = attention, .dropout = 0.1});
  }
  Tensor operator()(Tensor h) {
    for (nn::Block& block : blocks) {
      h = checkpointed ? checkpoint([&block](const Tensor& x) { return block(x); }, h) : block(h);
    }
    return h;
  }
  bool checkpointed;
  nn::ModuleList<nn::Block> blocks{*this, "blocks"};
};

/// The losses and the final weights of a training run.
std::vector<Tensor> train(const std::string& mechanism, Device device, bool checkpointed, bool recorded) {
  Generator rng(1);
  Stack model(rng, mechanism, 2, device, checkpointed);
  nn::AdamW optimizer(model.parameters(), {.lr = 0.01});
  const auto step = [&](const std::vector<Tensor>& in) {
    const Tensor loss = square(model(in[0])).mean();
    backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    return std::vector{loss};
  };
  Recording recording(device, &rng, step);
  std::vector<Tensor> results;
  for (uint64_t i = 0; i < 4; ++i) {
    const Tensor x = uniform({2, 12, 16}, i).to(DType::float32);
    results.push_back((recorded ? recording({x}) : step({x.to(device)}))[0].to(Device::cpu).detach().clone());
  }
  for (const Tensor& parameter : model.parameters()) results.push_back(parameter.to(Device::cpu));
  results.push_back(randn({2}, rng));
  return results;
}

void train_to_the_same_bits(Device device) {
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    CAPTURE(mechanism);
    const std::vector<Tensor> expected = train(mechanism, device, false, false);
    check_same_bits(train(mechanism, device, true, false), expected);
    check_same_bits(train(mechanism, device, true, true), expected);
  }
}

}  // namespace

TEST_CASE("checkpoint: Transformer layers with dropout train to the same bits, in a Recording too") {
  train_to_the_same_bits(Device::cpu);
}

TEST_CASE("gpu: checkpoint: Transformer layers with dropout train to the same bits, in a Recording too") {
  if (has_gpu("checkpoints of Transformer layers")) train_to_the_same_bits(Device::cuda);
}

TEST_CASE("checkpoint: Transformer layers keep no activation for backward but their inputs") {
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    if (mechanism == "reformer") continue;  // its backward keeps the order into which it sorts tokens
    CAPTURE(mechanism);
    const auto live_after_forward = [&](bool checkpointed) {
      Generator rng(1);
      Stack model(rng, mechanism, 6, Device::cpu, checkpointed);
      const Tensor x = uniform({4, 64, 16}, 1).to(DType::float32);
      model(x);  // allocates what layers keep from call to call
      const int64_t before = memory_stats().live;
      const Tensor y = model(x);
      return (memory_stats().live - before) / (x.numel() * 4);  // in multiples of the input
    };
    const int64_t plain = live_after_forward(false), checkpointed = live_after_forward(true);
    CAPTURE(plain);
    CAPTURE(checkpointed);
    CHECK(plain > 6 * 10);
    CHECK(checkpointed <= 6);
  }
}

}  // namespace linnet::test
