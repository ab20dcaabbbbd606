/// When Informer draws samples, and from which generator.

#include <doctest/doctest.h>

#include <linnet/core/device/profile.h>
#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/support/files.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using test::AttentionModel;
using test::same_bits;

namespace {

const nn::AttentionConfig kConfig{
    .mechanism = "informer", .width = 8, .heads = 2, .options = nn::InformerConfig{.queries = 3}};

Tensor tokens() {
  Generator rng(1);
  return randn({2, 30, 8}, rng, DType::float64);
}

}  // namespace

TEST_CASE("informer in training draws other samples in each step, from the model's generator alone") {
  Generator rng(2);
  nn::AttentionConfig config = kConfig;
  const AttentionModel model(rng, config);
  const Tensor x = tokens();
  const Generator::State before = rng.state();
  const Tensor first = (*model.attention)(x), second = (*model.attention)(x);
  CHECK(rng.state().draws == before.draws + 2);
  CHECK_FALSE(same_bits(first, second));
  rng.set_state(before);
  CHECK(same_bits((*model.attention)(x), first));
  config.dropout = 0.5;
  const AttentionModel dropping(rng, config);
  const uint64_t draws = rng.state().draws;
  (*dropping.attention)(x);
  CHECK(rng.state().draws == draws + 2);
}

TEST_CASE("informer in evaluation draws the same every time, from its seed, and leaves the generator as it is") {
  Generator rng(3);
  AttentionModel model(rng, kConfig);
  model.eval();
  const Tensor x = tokens();
  const Profile profile;
  const Generator::State before = rng.state();
  const Tensor first = (*model.attention)(x);
  CHECK(same_bits((*model.attention)(x), first));
  CHECK(rng.state().draws == before.draws);
  const int64_t seed = model.state().at("attention.seed").item<int64_t>();
  int draws = 0;
  for (const KernelCall& call : profile.calls()) {
    for (const RandomKey& key : call.keys) {
      CHECK(key.seed == static_cast<uint64_t>(seed));
      CHECK(key.stream == 0);
      ++draws;
    }
  }
  CHECK(draws == 2);  // one for each call

  model.state().at("attention.seed").fill_(seed + 1);
  CHECK_FALSE(same_bits((*model.attention)(x), first));
  model.state().at("attention.seed").fill_(seed);
  model.train();
  (*model.attention)(x);
  model.eval();
  CHECK(same_bits((*model.attention)(x), first));
}

TEST_CASE("informer: the samples of evaluation are part of what is saved, and other layers have others") {
  const test::TemporaryFolder folder;
  Generator rng(4), other_rng(5);
  const nn::PatchClassifierConfig config{.side = 6, .patch = 1, .layers = 2, .block = {.attention = kConfig}};
  nn::PatchClassifier model(rng, config), other(other_rng, config);
  model.eval();
  other.eval();
  CHECK(model.named_buffers().size() == 2);
  CHECK(model.named_buffers()[0].tensor.item<int64_t>() != model.named_buffers()[1].tensor.item<int64_t>());
  model.save(folder / "model.safetensors");
  other.load(folder / "model.safetensors");
  const Tensor x = randn({2, 36}, rng);
  CHECK(same_bits(other(x), model(x)));
}

TEST_CASE("informer: weights are refused for other numbers of queries, which would compute something else") {
  Generator rng(6);
  const AttentionModel model(rng, kConfig);
  nn::AttentionConfig config = kConfig;
  config.options = nn::InformerConfig{.factor = 2};
  AttentionModel other(rng, config);
  CHECK_THROWS_WITH_AS(other.load_state(model), doctest::Contains("different: informer_factor is 2 here and 5 there"),
                       ValueError);
  CHECK_THROWS_WITH_AS(other.load_state(model),
                       doctest::Contains("different: informer_queries is 0 here and 3 there"), ValueError);
}

TEST_CASE("informer: padding does not change how many queries are chosen") {
  // 6 of 7 tokens are chosen, but of 8 all would be.
  Generator rng(5);
  AttentionModel model(rng,
                       {.mechanism = "informer", .width = 2, .heads = 1, .options = nn::InformerConfig{.factor = 3}});
  model.eval();
  const Tensor x = randn({1, 7, 2}, rng, DType::float64), y = (*model.attention)(x);
  const Tensor longer = concat({x, ones({1, 1, 2}, DType::float64)}, 1);
  const Tensor mask = lt(arange(8), 7).unsqueeze(0);
  CHECK(allclose((*model.attention)(longer, mask).narrow(1, 0, 7), y, 1e-12, 1e-12));
}
