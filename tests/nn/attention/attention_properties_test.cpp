#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/support/properties.h"

/// Properties of every attention mechanism, for all sizes and options.

namespace linnet::test {
namespace {

/// An attention in float64 and tokens for it.
struct Case {
  nn::AttentionConfig config;
  int64_t batch, tokens;
  uint64_t seed;
};

Case arbitrary_case(bool causal) {
  Case c;
  nn::AttentionConfig& config = c.config;
  config.mechanism = *rc::gen::elementOf(causal ? nn::causal_mechanisms() : nn::attention_mechanisms());
  config.heads = *rc::gen::inRange<int64_t>(1, 4);
  config.width = config.heads * *rc::gen::inRange<int64_t>(1, 6);
  config.causal = causal;
  config.bias = *rc::gen::arbitrary<bool>();
  config.short_conv = causal ? *rc::gen::inRange<int64_t>(0, 4) : 0;
  if (config.mechanism.starts_with("fastmax")) {
    config.options = nn::FastmaxConfig{
        .form = *rc::gen::element(FastmaxForm::automatic, FastmaxForm::quadratic, FastmaxForm::factorised)};
  }
  if (config.mechanism == "linformer") {
    config.options =
        nn::LinformerConfig{.rank = *rc::gen::inRange<int64_t>(0, 20),
                            .share = *rc::gen::element(nn::LinformerShare::headwise, nn::LinformerShare::key_value)};
  }
  if (config.mechanism == "informer") {
    config.options =
        nn::InformerConfig{.factor = *rc::gen::inRange<int64_t>(1, 6), .queries = *rc::gen::inRange<int64_t>(0, 6)};
  }
  if (config.mechanism == "longformer") {
    config.options = nn::LongformerConfig{.window = 2 * *rc::gen::inRange<int64_t>(0, 6),
                                          .dilation = {*rc::gen::inRange<int64_t>(1, 4)},
                                          .global_tokens = *rc::gen::inRange<int64_t>(0, 14)};
  }
  if (config.mechanism == "bigbird") {
    config.options = nn::BigBirdConfig{.block = *rc::gen::inRange<int64_t>(1, 4),
                                       .random_blocks = *rc::gen::inRange<int64_t>(0, 2)};
  }
  if (config.mechanism == "poolingformer") {
    config.options =
        nn::PoolingformerConfig{.window = 2 * *rc::gen::inRange<int64_t>(0, 6),
                                .window2 = *rc::gen::inRange<int64_t>(0, 14),
                                .pooling = *rc::gen::element(TokenPooling::Kind::mean, TokenPooling::Kind::max,
                                                             TokenPooling::Kind::convolution),
                                .kernel = *rc::gen::inRange<int64_t>(1, 6),
                                .stride = *rc::gen::inRange<int64_t>(1, 5)};
  }
  if (config.mechanism == "reformer") {
    // Chunks longer than the sequences, since the places of cuts depend on all tokens.
    config.options =
        nn::ReformerConfig{.hashes = *rc::gen::inRange<int64_t>(1, 4), .chunk = *rc::gen::inRange<int64_t>(20, 40)};
  }
  if (config.mechanism == "fastformer") {
    config.options = nn::FastformerConfig{
        .interaction = *rc::gen::element(Interaction::product, Interaction::add, Interaction::concat),
        .share_heads = *rc::gen::arbitrary<bool>(),
        .projections = *rc::gen::inRange<int64_t>(2, 5)};
  } else if (nn::find_mechanism(config.mechanism).rotary) {
    config.rotary = causal && config.width / config.heads % 2 == 0 && *rc::gen::arbitrary<bool>();
  }
  c.batch = *rc::gen::inRange<int64_t>(1, 4);
  c.tokens = *rc::gen::inRange<int64_t>(1, 12);
  c.seed = *rc::gen::inRange<uint64_t>(0, 1000);
  return c;
}

/// Equal except for rounding; results here are about 1.
bool near(const Tensor& a, const Tensor& b) { return allclose(a, b, 1e-9, 1e-10); }

}  // namespace

TEST_CASE("property: an attention treats each sequence of a batch as if it were alone") {
  check_property("batches", [] {
    const Case c = arbitrary_case(*rc::gen::arbitrary<bool>());
    Generator rng(c.seed);
    AttentionModel model(rng, c.config);
    model.eval();
    const Tensor x = randn({c.batch, c.tokens, c.config.width}, rng, DType::float64);
    const Tensor together = (*model.attention)(x);
    for (int64_t b = 0; b < c.batch; ++b) {
      RC_ASSERT(near(together.narrow(0, b, 1), (*model.attention)(x.narrow(0, b, 1))));
    }
  });
}

TEST_CASE("property: tokens of an attention that is not causal are a set, and padding is not seen") {
  check_property("sets", [] {
    const Case c = arbitrary_case(false);
    Generator rng(c.seed);
    AttentionModel model(rng, c.config);
    model.eval();
    const nn::Attention& attention = *model.attention;
    const Tensor x = randn({c.batch, c.tokens, c.config.width}, rng, DType::float64);
    const Tensor y = attention(x);
    const Tensor order = randperm(c.tokens, rng);
    // A projection along the tokens has weights for each position, sampled keys depend on the query's position, and
    // windows and blocks depend on neighbours.
    const std::set<std::string> positional{"linformer", "informer", "longformer", "bigbird", "poolingformer"};
    RC_ASSERT(positional.contains(c.config.mechanism) ||
              near(attention(index_select(x, 1, order)), index_select(y, 1, order)));
    if (c.config.mechanism == "bigbird") return;  // its blocks and random draws depend on the number of tokens
    const int64_t padding = *rc::gen::inRange<int64_t>(0, 5);
    const Tensor longer = concat({x, randn({c.batch, padding, c.config.width}, rng, DType::float64) * 100}, 1);
    const Tensor padding_mask =
        concat({ones({c.batch, c.tokens}, DType::boolean), zeros({c.batch, padding}, DType::boolean)}, 1);
    RC_ASSERT(near(attention(longer, padding_mask).narrow(1, 0, c.tokens), y));
  });
}

TEST_CASE("property: a causal attention does not see what comes later, and its step form gives the same") {
  check_property("steps", [] {
    const Case c = arbitrary_case(true);
    Generator rng(c.seed);
    const AttentionModel model(rng, c.config);
    const nn::Attention& attention = *model.attention;
    const Tensor x = randn({c.batch, c.tokens, c.config.width}, rng, DType::float64);
    const Tensor y = attention(x);
    const int64_t seen = *rc::gen::inRange<int64_t>(1, c.tokens + 1);
    RC_ASSERT(near(attention(x.narrow(1, 0, seen)), y.narrow(1, 0, seen)));
    if (!nn::find_mechanism(c.config.mechanism).step) return;
    const auto state = attention.start();
    for (int64_t t = 0; t < c.tokens; ++t) RC_ASSERT(near(attention.step(*state, x.select(1, t)), y.select(1, t)));
  });
}

}  // namespace linnet::test
