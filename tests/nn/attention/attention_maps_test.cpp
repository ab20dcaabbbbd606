#include <doctest/doctest.h>

#include <map>
#include <memory>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"

/// The attention maps of modules: multiplied with the values, they must give the module's result.

using namespace linnet;
using linnet::test::AttentionModel;
using linnet::test::keep_all_but;
using linnet::test::largest_difference;
using linnet::test::relative_error;
using linnet::test::same_bits;

namespace {

constexpr int64_t kBatch = 2, kHeads = 3, kTokens = 12, kWidth = 12;

std::vector<nn::AttentionConfig> configs(const std::vector<std::string>& mechanisms) {
  std::vector<nn::AttentionConfig> configs;
  for (const std::string& mechanism : mechanisms) {
    for (const bool causal : {false, true}) {
      if (causal && !nn::find_mechanism(mechanism).causal) continue;
      nn::AttentionConfig config{
          .mechanism = mechanism, .width = kWidth, .heads = kHeads, .causal = causal, .max_tokens = kTokens};
      if (mechanism == "informer") config.options = nn::InformerConfig{.queries = 2};
      if (mechanism == "bigbird") config.options = nn::BigBirdConfig{.block = 1};  // hides some tokens
      configs.push_back(config);
      config.short_conv = 2;
      configs.push_back(config);
      if (mechanism != "softmax" && mechanism != "fastmax2") continue;
      config.rotary = true;
      configs.push_back(config);
    }
  }
  return configs;
}

/// Checks that rows sum to 1 and, if causal, that the weights of later tokens are exactly 0.
void check_rows(const Tensor& weights, bool causal) {
  const std::vector<double> w = weights.to_vector<double>();
  const int64_t rows = weights.size(2);
  size_t at = 0;
  for (int64_t row = 0; row < kBatch * kHeads * rows; ++row) {
    double total = 0;
    for (int64_t j = 0; j < kTokens; ++j, ++at) {
      total += w[at];
      if (causal && j > row % rows) CHECK(w[at] == 0);
    }
    CHECK(total == doctest::Approx(1).epsilon(1e-13));
  }
}

nn::DecoderConfig decoder(const std::string& mechanism) {
  return {.vocabulary = 5,
          .context = kTokens,
          .layers = 2,
          .block = {.attention = {.mechanism = mechanism, .width = kWidth, .heads = kHeads, .dropout = 0.3}}};
}

}  // namespace

TEST_CASE("attention maps: times the values they are what every attention gives that sums values") {
  for (const nn::AttentionConfig& config :
       configs({"softmax", "fastmax1", "fastmax2", "linear", "performer", "linformer", "bigbird", "informer"})) {
    CAPTURE(config.mechanism);
    CAPTURE(config.causal);
    CAPTURE(config.short_conv);
    Generator rng(3);
    const AttentionModel model(rng, config);
    const Tensor x = randn({kBatch, kTokens, kWidth}, rng, DType::float64);
    for (const Tensor& padding_mask : {Tensor(), keep_all_but(kBatch, kTokens, {{1, 2}, {1, 3}})}) {
      const std::vector<nn::AttentionMap> maps = model.attention->maps(x, padding_mask);
      REQUIRE(maps.size() == 1);
      CHECK(maps[0].name == "attention");
      CHECK(maps[0].weights.shape() == Shape{kBatch, kHeads, kTokens, kTokens});
      if (config.mechanism != "linformer") check_rows(maps[0].weights, config.causal);

      Tensor qkv = model.apply("qkv", x);
      if (config.short_conv > 0) {
        qkv =
            short_conv(qkv, model.tensor_of("conv.weight"), {.causal = config.causal, .padding_mask = padding_mask});
      }
      const Tensor v = nn::split_qkv(qkv, kHeads).v;
      const Tensor y = model.apply("out", nn::merge_heads(matmul(maps[0].weights, v)));
      CHECK(relative_error(y, (*model.attention)(x, padding_mask).to_vector<double>()) < 1e-12);
    }
  }
}

TEST_CASE("attention maps: Fastformer's α and β make its global vectors") {
  for (nn::AttentionConfig config : configs({"fastformer"})) {
    config.short_conv = 0;
    CAPTURE(config.causal);
    Generator rng(4);
    const AttentionModel model(rng, config);
    const Tensor x = randn({kBatch, kTokens, kWidth}, rng, DType::float64);
    const std::vector<nn::AttentionMap> maps = model.attention->maps(x);
    REQUIRE(maps.size() == 2);
    CHECK(maps[0].name == "attention α");
    CHECK(maps[1].name == "attention β");
    for (const auto& [name, weights] : maps) {
      CHECK(weights.shape() == Shape{kBatch, kHeads, config.causal ? kTokens : 1, kTokens});
      check_rows(weights, config.causal);
    }
    const Tensor query = model.apply("query", x);
    const Tensor q = nn::split_heads(query, kHeads), k = nn::split_heads(model.apply("key", x), kHeads);
    const Tensor p = matmul(maps[0].weights, q) * k,
                 u = matmul(maps[1].weights, p) * q;  // the values are the queries
    const Tensor y = model.apply("out", nn::merge_heads(u)) + query;
    CHECK(relative_error(y, (*model.attention)(x).to_vector<double>()) < 1e-12);
  }
}

TEST_CASE("attention maps: Fastformer has one for each projection but the last") {
  Generator rng(5);
  const AttentionModel model(rng, {.mechanism = "fastformer",
                                   .width = kWidth,
                                   .heads = kHeads,
                                   .options = nn::FastformerConfig{.projections = 4}});
  const std::vector<nn::AttentionMap> maps = model.attention->maps(randn({1, 3, kWidth}, rng, DType::float64));
  REQUIRE(maps.size() == 3);
  CHECK(maps[0].name == "attention 1");
  CHECK(maps[2].name == "attention 3");
}

TEST_CASE("attention maps: Longformer's sum the values that global rows have of their own, too") {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    Generator rng(9);
    AttentionModel model(rng,
                         {.mechanism = "longformer",
                          .width = kWidth,
                          .heads = kHeads,
                          .causal = causal,
                          .options = nn::LongformerConfig{.window = 4, .dilation = {1, 2, 3}, .global_tokens = 2}});
    model.draw_parameters(rng);
    const Tensor x = randn({kBatch, kTokens, kWidth}, rng, DType::float64);
    const Tensor weights = model.attention->maps(x)[0].weights;
    check_rows(weights, causal);
    const auto sums = [&](const char* map) { return matmul(weights, nn::split_qkv(model.apply(map, x), kHeads).v); };
    const Tensor o = concat({sums("qkv_global").narrow(2, 0, 2), sums("qkv").narrow(2, 2, kTokens - 2)}, 2);
    CHECK(largest_difference(model.apply("out", nn::merge_heads(o)), (*model.attention)(x)) < 1e-12);
  }
}

TEST_CASE("attention maps: Poolingformer's sum the values of both levels") {
  for (const TokenPooling::Kind kind : {TokenPooling::Kind::mean, TokenPooling::Kind::convolution}) {
    Generator rng(10);
    AttentionModel model(rng, {.mechanism = "poolingformer",
                               .width = kWidth,
                               .heads = kHeads,
                               .options = nn::PoolingformerConfig{
                                   .window = 2, .window2 = 6, .pooling = kind, .kernel = 3, .stride = 2}});
    model.draw_parameters(rng);
    const Tensor x = randn({kBatch, kTokens, kWidth}, rng, DType::float64);
    const std::vector<nn::AttentionMap> maps = model.attention->maps(x);
    const auto sums = [&](size_t level, const Tensor& projected) {
      check_rows(maps[level].weights, false);
      return nn::merge_heads(matmul(maps[level].weights, nn::split_qkv(projected, kHeads).v));
    };
    const Tensor y = sums(0, model.apply("qkv", x)), z = sums(1, model.apply("qkv2", y));
    CHECK(largest_difference(model.apply("out", y + z), (*model.attention)(x)) < 1e-12);
  }
}

TEST_CASE("attention maps: Reformer's sum its values") {
  for (const bool causal : {false, true}) {
    for (const double scale : {1.0, 0.3}) {
      Generator rng(11);
      AttentionModel model(rng, {.mechanism = "reformer",
                                 .width = kWidth,
                                 .heads = kHeads,
                                 .causal = causal,
                                 .options = nn::ReformerConfig{.hashes = 2, .chunk = 3, .scale = scale}});
      model.draw_parameters(rng);
      const Tensor x = randn({kBatch, kTokens, kWidth}, rng, DType::float64);
      const Tensor weights = model.attention->maps(x)[0].weights;
      check_rows(weights, causal);
      const Tensor o = matmul(weights, nn::split_heads(model.apply("v", x), kHeads));
      CHECK(largest_difference(model.apply("out", nn::merge_heads(o)), (*model.attention)(x)) < 1e-12);
    }
  }
}

TEST_CASE("AttentionMaps collects the maps of every layer, in order, and changes nothing else") {
  const Tensor ids = tensor<int64_t>({0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1}).reshape({1, kTokens});
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    CAPTURE(mechanism);
    // In training, where dropout draws from the generator. Collecting maps must draw nothing.
    Generator rng(6), same(6);
    const nn::DecoderLM model(rng, decoder(mechanism)), other(same, decoder(mechanism));
    const Tensor expected = other(ids);
    std::vector<nn::AttentionMap> all;
    {
      const nn::AttentionMaps maps;
      CHECK(same_bits(model(ids), expected));
      all = maps.all();
    }
    model(ids);  // no longer collected
    const std::map<std::string, std::pair<std::string, std::string>> several{
        {"fastformer", {" α", " β"}}, {"poolingformer", {" window", " pools"}}};
    const auto names = several.find(mechanism);
    REQUIRE(all.size() == (names != several.end() ? 4 : 2));
    CHECK(all.front().name == "blocks.0.attention" + (names != several.end() ? names->second.first : ""));
    CHECK(all.back().name == "blocks.1.attention" + (names != several.end() ? names->second.second : ""));
    for (const auto& [name, weights] : all) {
      CHECK(weights.shape() == Shape{1, kHeads, kTokens, kTokens});
      CHECK_FALSE(weights.requires_grad());
    }
    CHECK_FALSE(same_bits(all.front().weights, all.back().weights));
  }
}

TEST_CASE("AttentionMaps of image classifiers, whose attentions need no causal form") {
  const Tensor images = ones({2, 16});
  for (const std::string& mechanism : nn::attention_mechanisms()) {
    CAPTURE(mechanism);
    nn::AttentionConfig attention{.mechanism = mechanism, .width = kWidth, .heads = kHeads, .dropout = 0.3};
    if (mechanism == "informer") attention.options = nn::InformerConfig{.queries = 2};
    const nn::PatchClassifierConfig config{.side = 4, .patch = 1, .layers = 2, .block = {.attention = attention}};
    Generator rng(6), same(6);
    const nn::PatchClassifier model(rng, config), other(same, config);
    const Tensor expected = other(images);
    const nn::AttentionMaps maps;
    CHECK(same_bits(model(images), expected));
    CHECK(rng.state().draws == same.state().draws);
    REQUIRE(maps.all().size() == (mechanism == "fastformer" || mechanism == "poolingformer" ? 4 : 2));
    const Shape& shape = maps.all().front().weights.shape();
    CHECK(shape == Shape{2, kHeads, mechanism == "fastformer" ? 1 : 16, 16});
  }
}

TEST_CASE("AttentionMaps: layers that share weights each have their own map; the inner of two collections gets it") {
  Generator rng(7);
  nn::DecoderConfig config = decoder("softmax");
  config.share_layers = true;
  const nn::DecoderLM model(rng, config);
  const Tensor ids = tensor<int64_t>({4, 3, 2}).reshape({1, 3});
  const nn::AttentionMaps outer;
  {
    const nn::AttentionMaps inner;
    model(ids);
    REQUIRE(inner.all().size() == 2);
    CHECK(inner.all()[0].name == inner.all()[1].name);
    CHECK_FALSE(same_bits(inner.all()[0].weights, inner.all()[1].weights));
  }
  CHECK(outer.all().empty());
  model(ids);
  CHECK(outer.all().size() == 2);
}

TEST_CASE("attention maps refuse what the attention refuses") {
  Generator rng(8);
  const AttentionModel model(rng, {.mechanism = "softmax", .width = kWidth, .heads = kHeads});
  CHECK_THROWS_WITH_AS(
      model.attention->maps(zeros({2, kWidth}, DType::float64)),
      doctest::Contains("attention (softmax attention, width 12, heads 3): x should be [batch, tokens, 12]"),
      ShapeError);
}

TEST_CASE("AttentionMaps: collections that end in another order than they began") {
  Generator rng(7);
  const AttentionModel model(rng, configs({"softmax"})[0]);
  const Tensor x = randn({kBatch, kTokens, kWidth}, rng, DType::float64);
  auto first = std::make_unique<nn::AttentionMaps>(), second = std::make_unique<nn::AttentionMaps>();
  first.reset();
  (*model.attention)(x);
  CHECK(second->all().size() == 1);
  second.reset();
  (*model.attention)(x);  // collected nowhere; AddressSanitizer would see the use of the first one
}
