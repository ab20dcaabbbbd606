/// The attention functions that bench times, with their options, and the operations and bytes that it counts for
/// them.

#include <doctest/doctest.h>

#include <linnet/linnet.h>

using namespace linnet;

namespace {

constexpr int64_t kTokens = 32, kHeads = 2, kWidth = 4;  // the width of a head

double operations(const char* mechanism, std::any options) {
  const nn::AttentionSize size{.heads = kHeads, .tokens = kTokens, .head_dim = kWidth, .options = std::move(options)};
  return nn::find_mechanism(mechanism).operations(size, {});
}

nn::AttentionCore core(const char* mechanism, std::any options, Generator& rng) {
  const nn::AttentionConfig config{.mechanism = mechanism,
                                   .width = kHeads * kWidth,
                                   .heads = kHeads,
                                   .max_tokens = kTokens,
                                   .options = std::move(options)};
  return nn::find_mechanism(mechanism).core(config, rng, Device::cpu);
}

}  // namespace

TEST_CASE("Mechanism::operations: the options that change them") {
  constexpr double kPerPair = kHeads * kTokens * kWidth;
  CHECK(operations("informer", nn::InformerConfig{}) == 16 * kPerPair * 5 * 4);  // ln 32 = 3.5
  CHECK(operations("informer", nn::InformerConfig{.factor = 2}) == 16 * kPerPair * 2 * 4);
  CHECK(operations("informer", nn::InformerConfig{.queries = 7}) == 16 * kPerPair * 7);
  CHECK(operations("informer", nn::InformerConfig{.queries = 99}) == 14 * kPerPair * kTokens);
  CHECK(operations("linformer", nn::LinformerConfig{}) == 26 * kPerPair * kTokens);
  CHECK(operations("linformer", nn::LinformerConfig{.rank = 8}) == 26 * kPerPair * 8);
  CHECK(operations("performer", nn::PerformerConfig{.features = 8}) ==
        kHeads * kTokens * 8 * (12 * kWidth + 14 * (kWidth + 1)));
  CHECK(operations("performer", nn::PerformerConfig{}) ==
        operations("performer", nn::PerformerConfig{.features = performer_features(kWidth)}));
}

TEST_CASE("Mechanism::least_bytes: linformer reads its projections and writes their gradients") {
  const auto beyond = [](const nn::LinformerConfig& options) {
    const nn::AttentionSize size{.heads = kHeads, .tokens = kTokens, .head_dim = kWidth, .options = options};
    return nn::find_mechanism("linformer").least_bytes(size) - nn::least_qkv_bytes(size);
  };
  CHECK(beyond({}) == 4 * 6 * kTokens * kTokens);
  CHECK(beyond({.rank = 8}) == 4 * 6 * 8 * kTokens);
  CHECK(beyond({.rank = 8, .share = nn::LinformerShare::key_value}) == 4 * 3 * 8 * kTokens);
}

TEST_CASE("Mechanism::core has the config's options") {
  Generator rng(5);
  const nn::LinformerConfig headwise{.rank = 8}, shared{.rank = 8, .share = nn::LinformerShare::key_value};
  const std::vector<Tensor> two = core("linformer", headwise, rng).parameters;
  REQUIRE(two.size() == 2);
  CHECK(two[1].shape() == Shape{8, kTokens});
  CHECK(core("linformer", shared, rng).parameters.size() == 1);

  const auto random = [&] { return randn({1, kHeads, kTokens, kWidth}, rng); };
  const Tensor q = random(), k = random(), v = random(), softmax = softmax_attention(q, k, v);
  const auto is_softmax = [&](const nn::InformerConfig& options) {
    return max(abs(core("informer", options, rng).attend(q, k, v) - softmax)).item() < 1e-5;
  };
  CHECK(is_softmax({.queries = kTokens}));
  CHECK(is_softmax({.factor = 8}));
  CHECK_FALSE(is_softmax({}));
}
