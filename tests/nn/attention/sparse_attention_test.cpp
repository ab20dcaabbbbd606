/// The modules of Longformer, BigBird, Poolingformer and Reformer: everything that they add to their ops.

#include <doctest/doctest.h>

#include <set>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/support/files.h"
#include "tests/support/near.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using test::AttentionModel;
using test::largest_difference;
using test::same_bits;

namespace {

Tensor tokens(int64_t count) {
  Generator rng(1);
  return randn({2, count, 8}, rng, DType::float64);
}

std::set<std::string> names_of(const nn::Module& module) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : module.named_parameters()) names.insert(name.substr(name.find('.') + 1));
  return names;
}

}  // namespace

TEST_CASE("longformer, bigbird, poolingformer and reformer: names of their parameters") {
  Generator rng(2);
  const auto names = [&](const char* mechanism, const std::any& options = {}) {
    return names_of(AttentionModel(
        rng, {.mechanism = mechanism, .width = 8, .heads = 2, .bias = false, .short_conv = 2, .options = options}));
  };
  CHECK(names("longformer") == std::set<std::string>{"qkv.weight", "qkv_global.weight", "out.weight", "conv.weight"});
  CHECK(names("bigbird") == std::set<std::string>{"qkv.weight", "out.weight", "conv.weight"});
  CHECK(names("poolingformer") ==
        std::set<std::string>{"qkv.weight", "qkv2.weight", "out.weight", "conv.weight", "pool_k", "pool_v"});
  CHECK(names("poolingformer", nn::PoolingformerConfig{.pooling = TokenPooling::Kind::mean}) ==
        std::set<std::string>{"qkv.weight", "qkv2.weight", "out.weight", "conv.weight"});
  CHECK(names("reformer") == std::set<std::string>{"qk.weight", "v.weight", "out.weight", "conv.weight"});
}

TEST_CASE("longformer: the maps of global rows start as copies, in a decoder's own weights too") {
  Generator rng(3);
  const AttentionModel model(rng, {.mechanism = "longformer", .width = 8, .heads = 2});
  for (const char* part : {"weight", "bias"}) {
    const std::string of = part;
    CHECK(same_bits(model.state().at("attention.qkv." + of), model.state().at("attention.qkv_global." + of)));
  }
  const nn::DecoderLM decoder(rng, {.vocabulary = 5,
                                    .context = 8,
                                    .layers = 2,
                                    .block = {.attention = {.mechanism = "longformer", .width = 8, .heads = 2}}});
  for (const char* block : {"blocks.0.", "blocks.1."}) {
    const TensorMap state = decoder.state();
    const Tensor local = state.at(std::string(block) + "attention.qkv.weight");
    CHECK(same_bits(local, state.at(std::string(block) + "attention.qkv_global.weight")));
    CHECK(norm(local).item<double>() > 0);
  }
}

TEST_CASE("longformer: with copies for global rows and a window over everything it is softmax attention") {
  for (const bool causal : {false, true}) {
    Generator rng(4);
    const AttentionModel longformer(rng, {.mechanism = "longformer", .width = 8, .heads = 2, .causal = causal});
    AttentionModel softmax(rng, {.mechanism = "softmax", .width = 8, .heads = 2, .causal = causal});
    TensorMap weights = longformer.state();
    for (const char* part : {"weight", "bias"}) weights.erase(std::string("attention.qkv_global.") + part);
    softmax.load_state(weights);
    const Tensor x = tokens(40);
    CHECK(largest_difference((*longformer.attention)(x), (*softmax.attention)(x)) < 1e-14);
  }
}

TEST_CASE("longformer: the step form of a long text keeps the last tokens and the global ones alone") {
  Generator rng(5);
  const AttentionModel model(rng,
                             {.mechanism = "longformer",
                              .width = 8,
                              .heads = 2,
                              .causal = true,
                              .options = nn::LongformerConfig{.window = 6, .dilation = {2}, .global_tokens = 3}});
  const NoGrad no_grad;
  const Tensor x = tokens(300);
  const Tensor sequence = (*model.attention)(x);
  const auto state = model.attention->start();
  int64_t early = 0;
  for (int64_t t = 0; t < 300; ++t) {
    const Tensor step = model.attention->step(*state, x.select(1, t));
    CHECK(largest_difference(step, sequence.select(1, t)) < 1e-12);
    if (t == 100) early = memory_stats().live;
    if (t > 100) CHECK(memory_stats().live <= early + 8 * 1024);  // rows of 13 tokens are in buffers for up to 24
  }
}

TEST_CASE("bigbird draws the same blocks in training and evaluation, from a seed that is saved") {
  const test::TemporaryFolder folder;
  const nn::AttentionConfig config{
      .mechanism = "bigbird", .width = 8, .heads = 2, .options = nn::BigBirdConfig{.block = 2, .random_blocks = 2}};
  Generator rng(6), other_rng(7);
  AttentionModel model(rng, config), other(other_rng, config);
  const Tensor x = tokens(40);
  const uint64_t draws = rng.state().draws;
  const Tensor first = (*model.attention)(x);
  CHECK(same_bits((*model.attention)(x), first));
  model.eval();
  CHECK(same_bits((*model.attention)(x), first));
  CHECK(rng.state().draws == draws);
  model.save(folder / "model.safetensors");
  other.load(folder / "model.safetensors");
  CHECK(same_bits((*other.attention)(x), first));
  const int64_t seed = model.state().at("attention.seed").item<int64_t>();
  other.state().at("attention.seed").fill_(seed + 1);
  CHECK_FALSE(same_bits((*other.attention)(x), first));
}

TEST_CASE("poolingformer: without values at the second level, the first one is left") {
  Generator rng(8);
  AttentionModel model(rng, {.mechanism = "poolingformer",
                             .width = 8,
                             .heads = 2,
                             .bias = false,
                             .options = nn::PoolingformerConfig{.window = 6, .window2 = 20}});
  const AttentionModel window(rng, {.mechanism = "longformer",
                                    .width = 8,
                                    .heads = 2,
                                    .bias = false,
                                    .options = nn::LongformerConfig{.window = 6, .global_tokens = 0}});
  const Tensor x = tokens(50);
  window.state().at("attention.qkv.weight").copy_(model.state().at("attention.qkv.weight"));
  window.state().at("attention.out.weight").copy_(model.state().at("attention.out.weight"));
  CHECK(largest_difference((*model.attention)(x), (*window.attention)(x)) > 1e-3);
  model.state().at("attention.qkv2.weight").narrow(0, 16, 8).fill_(0);
  CHECK(largest_difference((*model.attention)(x), (*window.attention)(x)) < 1e-14);
}

TEST_CASE("reformer draws rotations in each step of training, and the same ones in evaluation, from a saved seed") {
  const test::TemporaryFolder folder;
  const nn::AttentionConfig config{
      .mechanism = "reformer", .width = 8, .heads = 2, .options = nn::ReformerConfig{.hashes = 1, .chunk = 8}};
  Generator rng(9), other_rng(10);
  AttentionModel model(rng, config), other(other_rng, config);
  const Tensor x = tokens(60);
  model.train();
  const Generator::State before = rng.state();
  const Tensor first = (*model.attention)(x), second = (*model.attention)(x);
  CHECK(rng.state().draws == before.draws + 2);
  CHECK_FALSE(same_bits(first, second));
  rng.set_state(before);
  CHECK(same_bits((*model.attention)(x), first));
  model.eval();
  other.eval();
  const uint64_t draws = rng.state().draws;
  const Tensor evaluated = (*model.attention)(x);
  CHECK(same_bits((*model.attention)(x), evaluated));
  CHECK(rng.state().draws == draws);
  model.save(folder / "model.safetensors");
  other.load(folder / "model.safetensors");
  CHECK(same_bits((*other.attention)(x), evaluated));
}

TEST_CASE("reformer in the released form hashes to a power of two of buckets") {
  Generator rng(12);
  const AttentionModel model(rng, {.mechanism = "reformer",
                                   .width = 8,
                                   .heads = 2,
                                   .options = nn::ReformerConfig{.hashes = 2, .chunk = 8, .released = true}});
  const std::map<std::string, Tensor> state = model.state();
  const auto map = [&](const Tensor& x, const std::string& name) {
    return linear(x, state.at("attention." + name + ".weight"), state.at("attention." + name + ".bias"));
  };
  const auto heads = [&](const Tensor& x) { return x.reshape({2, 48, 2, 4}).transpose(1, 2); };
  const Tensor x = tokens(48), q = heads(map(x, "qk"));
  Generator draws(static_cast<uint64_t>(state.at("attention.seed").item<int64_t>()));
  const Tensor buckets = lsh_buckets(q, lsh_rotations(2, 4, 2, 8, draws, DType::float64));  // 2·48/8 is 12
  const LshAttentionOptions options{.chunk = 8, .released = true};
  const Tensor o = lsh_attention(q, heads(map(x, "v")), buckets, options);
  const Tensor expected = map(o.transpose(1, 2).reshape({2, 48, 8}), "out");
  CHECK(largest_difference((*model.attention)(x), expected) < 1e-12);
  CHECK(same_bits(model.attention->maps(x)[0].weights, lsh_attention_weights(q, buckets, options)));
}

TEST_CASE("longformer, bigbird, poolingformer and reformer: what cannot be is refused") {
  Generator rng(11);
  const auto refused = [&](const nn::AttentionConfig& config, const char* because) {
    nn::AttentionConfig whole = config;
    whole.width = 8;
    whole.heads = 2;
    CHECK_THROWS_WITH_AS(AttentionModel(rng, whole), doctest::Contains(because), ValueError);
  };
  for (const char* mechanism : {"longformer", "bigbird", "poolingformer", "reformer"}) {
    refused({.mechanism = mechanism, .rotary = true}, "has no rotary positions");
  }
  refused({.mechanism = "bigbird", .causal = true}, "bigbird has no causal form");
  refused({.mechanism = "longformer", .options = nn::LongformerConfig{.window = 5}},
          "window 5 does not apply to longformer, half of which is on each side; use an even number");
  refused({.mechanism = "longformer", .options = nn::LongformerConfig{.dilation = {1, 2, 3}}},
          "dilation 1,2,3 does not apply to longformer, of 2 heads; give one number for all, or one for each");
  refused({.mechanism = "longformer", .options = nn::LongformerConfig{.dilation = {0}}},
          "dilation is 0; it must be at least 1");
  refused({.mechanism = "longformer", .options = nn::LongformerConfig{.window = -2}}, "must not be negative");
  refused({.mechanism = "poolingformer", .options = nn::PoolingformerConfig{.window = 5}},
          "window 5 does not apply to poolingformer");
  refused({.mechanism = "poolingformer", .options = nn::PoolingformerConfig{.kernel = 0}},
          "kernel 0 and stride 4 must be at least 1");
  refused({.mechanism = "bigbird", .options = nn::BigBirdConfig{.block = 0}},
          "block is 0 and random_blocks 1; they must be at least 1 and 0");
  refused({.mechanism = "reformer", .options = nn::ReformerConfig{.hashes = 0}},
          "0 hashes and chunks of 64 tokens; both must be at least 1");
  refused({.mechanism = "reformer", .dropout = 0.1, .options = nn::ReformerConfig{.released = true}},
          "reformer has no dropout in the released form");
  for (const char* mechanism : {"poolingformer", "reformer"}) {
    const AttentionModel model(rng, {.mechanism = mechanism, .width = 8, .heads = 2, .causal = true});
    CHECK_THROWS_WITH_AS(model.attention->start(),
                         doctest::Contains("has no step form; call it on all tokens so far"), ValueError);
  }
}
