#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"

using namespace linnet;
using test::AttentionModel;

namespace {

std::vector<std::string> names_of(const nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : module.named_parameters()) names.push_back(name);
  return names;
}

int64_t count_parameters(const nn::Module& module) {
  int64_t count = 0;
  for (const Tensor& parameter : module.parameters()) count += parameter.numel();
  return count;
}

}  // namespace

TEST_CASE("attention: names and numbers of parameters") {
  Generator rng(11);
  const AttentionModel softmax(rng, {.mechanism = "softmax", .width = 12, .heads = 3});
  CHECK(names_of(softmax) == std::vector<std::string>{"attention.qkv.weight", "attention.qkv.bias",
                                                      "attention.out.weight", "attention.out.bias"});
  const AttentionModel fastmax(rng, {.mechanism = "fastmax1", .width = 12, .heads = 3, .bias = false});
  CHECK(names_of(fastmax) == std::vector<std::string>{"attention.qkv.weight", "attention.out.weight"});
  const AttentionModel linear(rng, {.mechanism = "linear", .width = 12, .heads = 3, .short_conv = 2});
  CHECK(names_of(linear) == std::vector<std::string>{"attention.qkv.weight", "attention.qkv.bias",
                                                     "attention.out.weight", "attention.out.bias",
                                                     "attention.conv.weight"});
  const AttentionModel linformer(rng, {.mechanism = "linformer", .width = 12, .heads = 3, .bias = false});
  CHECK(names_of(linformer) ==
        std::vector<std::string>{"attention.e", "attention.f", "attention.qkv.weight", "attention.out.weight"});
  const AttentionModel informer(rng, {.mechanism = "informer", .width = 12, .heads = 3, .bias = false});
  CHECK(names_of(informer) == std::vector<std::string>{"attention.qkv.weight", "attention.out.weight"});
  CHECK(informer.named_buffers().front().name == "attention.seed");
  const AttentionModel performer(rng, {.mechanism = "performer", .width = 12, .heads = 3, .short_conv = 2});
  CHECK(names_of(performer) == names_of(linear));
  CHECK(performer.named_buffers().size() == 1);
  CHECK(performer.state().at("attention.omega").shape() == Shape{5, 4});  // ⌊4 ln 4⌋ features
  const AttentionModel shared(rng, {.mechanism = "fastformer", .width = 12, .heads = 3, .bias = false});
  CHECK(names_of(shared) == std::vector<std::string>{"attention.w_q", "attention.w_k", "attention.query.weight",
                                                     "attention.key.weight", "attention.out.weight"});
  CHECK(count_parameters(shared) == 3 * 12 * 12 + 2 * 12);  // 3C² + 2C
  const AttentionModel apart(rng, {.mechanism = "fastformer",
                                   .width = 12,
                                   .bias = false,
                                   .options = nn::FastformerConfig{.share_query_value = false}});
  CHECK(count_parameters(apart) == 4 * 12 * 12 + 2 * 12);
  const AttentionModel two(rng,
                           {.mechanism = "fastformer",
                            .width = 12,
                            .bias = false,
                            .options = nn::FastformerConfig{
                                .interaction = Interaction::concat, .share_query_value = false, .projections = 2}});
  CHECK(names_of(two) == std::vector<std::string>{"attention.w1", "attention.w1_projection",
                                                  "attention.projection1.weight", "attention.projection2.weight",
                                                  "attention.out.weight"});
}

TEST_CASE("FastformerAttention: parameters of every option, C = 12, H = 3, D = 4, without biases") {
  constexpr int64_t c = 12, h = 3, d = 4;
  const auto count = [](nn::AttentionConfig config) {
    Generator rng(16);
    config.mechanism = "fastformer", config.width = 12, config.heads = 3, config.bias = false;
    return count_parameters(AttentionModel(rng, config));
  };
  CHECK(count({}) == 3 * c * c + 2 * c);
  CHECK(count({.options = nn::FastformerConfig{.interaction = Interaction::add}}) == 3 * c * c + 2 * c);
  CHECK(count({.options = nn::FastformerConfig{.interaction = Interaction::concat}}) ==
        3 * c * c + 2 * c + 2 * h * 2 * d * d);
  CHECK(count({.options = nn::FastformerConfig{.full_logits = true}}) == 3 * c * c + 2 * (h * c + h));
  CHECK(count({.options = nn::FastformerConfig{.share_heads = true}}) == 2 * d * d + c * c + 2 * d);
  CHECK(count({.options = nn::FastformerConfig{.share_query_value = false, .projections = 2}}) == 3 * c * c + c);
  CHECK(count({.options = nn::FastformerConfig{.projections = 5}}) == 5 * c * c + 4 * c);
  CHECK(count({.short_conv = 4}) == 3 * c * c + 2 * c + 12 * c);
}
