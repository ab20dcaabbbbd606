/// Linformer's projections in layers and models.

#include <doctest/doctest.h>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/support/files.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using test::AttentionModel;
using test::same_bits;

namespace {

constexpr int64_t kLayers = 3, kTokens = 16, kRank = 5;

nn::PatchClassifierConfig images(nn::LinformerShare share, int64_t rank = kRank) {
  return {.side = 4,
          .patch = 1,
          .layers = kLayers,
          .block = {.attention = {.mechanism = "linformer",
                                  .width = 8,
                                  .heads = 2,
                                  .options = nn::LinformerConfig{.rank = rank, .share = share}}}};
}

/// The projections of a model, by name.
TensorMap projections_of(const nn::Module& model) {
  TensorMap projections;
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (name.ends_with("attention.e") || name.ends_with("attention.f") || name == "shared_attention") {
      projections[name] = tensor;
    }
  }
  return projections;
}

}  // namespace

TEST_CASE("linformer: projections of each layer, of keys and values together, or of all layers") {
  const auto projections = [](const nn::PatchClassifierConfig& config) {
    Generator rng(1);
    const nn::PatchClassifier model(rng, config);
    TensorMap all = projections_of(model);
    for (const auto& [name, tensor] : all) CHECK(tensor.shape() == Shape{kRank, kTokens});
    return all;
  };
  CHECK(projections(images(nn::LinformerShare::headwise)).size() == 2 * kLayers);
  CHECK(projections(images(nn::LinformerShare::key_value)).size() == kLayers);
  const TensorMap one = projections(images(nn::LinformerShare::layerwise));
  REQUIRE(one.size() == 1);
  CHECK(one.begin()->first == "shared_attention");
  nn::PatchClassifierConfig one_block = images(nn::LinformerShare::headwise);
  one_block.share_layers = true;
  CHECK(projections(one_block).size() == 2);
}

TEST_CASE("linformer: one projection of all layers gets the gradients of all") {
  Generator rng(2), same(2);
  const nn::PatchClassifier model(rng, images(nn::LinformerShare::layerwise), DType::float64);
  nn::PatchClassifier apart(same, images(nn::LinformerShare::key_value), DType::float64);
  TensorMap weights = model.state();
  for (int64_t i = 0; i < kLayers; ++i) {
    weights["blocks." + std::to_string(i) + ".attention.e"] = weights.at("shared_attention");
  }
  weights.erase("shared_attention");
  apart.load_state(weights);
  const Tensor x = randn({2, kTokens}, rng, DType::float64);
  const Tensor y = model(x), expected = apart(x);
  CHECK(same_bits(y, expected));
  backward(sum(square(y)));
  backward(sum(square(expected)));
  Tensor total = zeros({kRank, kTokens}, DType::float64);
  for (const auto& [name, tensor] : projections_of(apart)) {
    CHECK(norm(tensor.grad()).item<double>() > 0);
    total = total + tensor.grad();
  }
  CHECK(allclose(projections_of(model).at("shared_attention").grad(), total, 1e-12));
}

TEST_CASE("linformer: a model with one projection is saved and loaded whole, and shares it with no other model") {
  const test::TemporaryFolder folder;
  Generator rng(3), other_rng(4);
  const nn::PatchClassifier model(rng, images(nn::LinformerShare::layerwise));
  nn::PatchClassifier other(other_rng, model.config());  // from the config of the first model
  const Tensor mine = projections_of(model).at("shared_attention");
  CHECK_FALSE(same_bits(mine.detach(), projections_of(other).at("shared_attention").detach()));
  model.save(folder / "model.safetensors");
  other.load(folder / "model.safetensors");
  const Tensor x = randn({2, kTokens}, rng);
  CHECK(same_bits(other(x), model(x)));
}

TEST_CASE("linformer: 64 slots where the rank is not given, or as many as tokens") {
  const auto rank = [](int64_t tokens) {
    Generator rng(5);
    const AttentionModel model(rng, {.mechanism = "linformer", .width = 4, .max_tokens = tokens});
    return model.state().at("attention.e").size(0);
  };
  CHECK(rank(10) == 10);
  CHECK(rank(64) == 64);
  CHECK(rank(1000) == 64);
}

TEST_CASE("linformer refuses more tokens than it was built for, naming both, and takes fewer") {
  Generator rng(6);
  const AttentionModel model(rng, {.mechanism = "linformer", .width = 4, .max_tokens = 9});
  CHECK_NOTHROW((*model.attention)(zeros({1, 9, 4}, DType::float64)));
  CHECK_NOTHROW((*model.attention)(zeros({1, 2, 4}, DType::float64)));
  CHECK_THROWS_WITH_AS((*model.attention)(zeros({1, 10, 4}, DType::float64)),
                       doctest::Contains("attention (linformer attention, width 4, heads 1): 10 tokens, but e[9, 9] "
                                         "projects 9 at most; give fewer tokens, or build it for more"),
                       ValueError);
}

TEST_CASE("make_shared_parameter: what all layers share, with checked options") {
  Generator rng(7);
  const nn::Sequential model(rng, DType::float64);
  const auto shared = [&](const nn::AttentionConfig& config) { return nn::make_shared_parameter(model, config); };
  CHECK_FALSE(shared({.mechanism = "softmax", .width = 4}).defined());
  CHECK_FALSE(shared({.mechanism = "linformer", .width = 4, .max_tokens = 9}).defined());
  nn::AttentionConfig layerwise{.mechanism = "linformer",
                                .width = 4,
                                .max_tokens = 9,
                                .options = nn::LinformerConfig{.rank = 3, .share = nn::LinformerShare::layerwise}};
  const Tensor parameter = shared(layerwise);
  CHECK(parameter.shape() == Shape{3, 9});
  CHECK(parameter.dtype() == DType::float64);
  layerwise.max_tokens = 2;
  CHECK_THROWS_WITH_AS(shared(layerwise), doctest::Contains("linformer_rank is 3, above the 2 tokens"), ValueError);
  layerwise.max_tokens = 0;
  CHECK_THROWS_WITH_AS(shared(layerwise),
                       doctest::Contains("max_tokens is 0; set it to the model's longest sequence"), ValueError);
  layerwise.options = nn::InformerConfig{};
  CHECK_THROWS_WITH_AS(shared(layerwise), doctest::Contains("linformer has none of the options of informer"),
                       ValueError);
}

TEST_CASE("linformer: models say what they refuse") {
  Generator rng(8);
  CHECK_THROWS_WITH_AS(nn::PatchClassifier(rng, images(nn::LinformerShare::headwise, 17)),
                       doctest::Contains("blocks.0.attention (linformer attention, width 8, heads 2): linformer_rank "
                                         "is 17, above the 16 tokens that max_tokens allows"),
                       ValueError);
  CHECK_THROWS_WITH_AS(nn::PatchClassifier(rng, images(nn::LinformerShare::layerwise, 17)),
                       doctest::Contains("PatchClassifier: linformer_rank is 17"), ValueError);
  const nn::AttentionConfig attention{.mechanism = "linformer", .width = 8};
  CHECK_THROWS_WITH_AS(nn::DecoderLM(rng, {.vocabulary = 5, .context = 4, .block = {.attention = attention}}),
                       doctest::Contains("blocks.0.attention: linformer has no causal form"), ValueError);
}
