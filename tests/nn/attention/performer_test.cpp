#include <linnet/nn/attention/performer.h>

#include <doctest/doctest.h>

#include <cmath>

#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"
#include "tests/support/near.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using test::AttentionModel;
using test::same_bits;

namespace {

nn::AttentionConfig config(const nn::PerformerConfig& options, bool causal = false) {
  return {.mechanism = "performer", .width = 16, .heads = 2, .causal = causal, .options = options};
}

Tensor omega_of(const nn::Module& model) {
  for (const auto& [name, tensor] : model.named_buffers()) {
    if (name.ends_with("omega")) return tensor.clone();
  }
  return {};
}

}  // namespace

TEST_CASE("PerformerAttention: features are drawn anew at multiples of `redraw`, in training alone") {
  Generator rng(1);
  AttentionModel model(rng, config({.redraw = 3}));
  Tensor before = omega_of(model);
  CHECK(before.shape() == Shape{16, 8});  // ⌊8 ln 8⌋ features
  const auto changes_at = [&](int64_t step) {
    model.begin_step(step);
    const Tensor after = omega_of(model);
    const bool changed = !same_bits(before, after);
    before = after;
    return changed;
  };
  for (int64_t step = 0; step < 10; ++step) {
    CAPTURE(step);
    CHECK(changes_at(step) == (step == 3 || step == 6 || step == 9));
  }
  const uint64_t draws = rng.state().draws;
  model.eval();
  CHECK_FALSE(changes_at(12));
  const Tensor x = randn({1, 5, 16}, rng, DType::float64);
  CHECK(same_bits((*model.attention)(x), (*model.attention)(x)));
  CHECK(rng.state().draws == draws + 1);
  model.train();
  CHECK(changes_at(12));
  for (int64_t i = 0; i < 5; ++i) (*model.attention)(x);  // any number of forward passes
  CHECK(same_bits(omega_of(model), before));

  AttentionModel never(rng, config({.redraw = 0}));
  const Tensor first = omega_of(never);
  for (const int64_t step : {0, 1, 1000, 3000}) never.begin_step(step);
  CHECK(same_bits(omega_of(never), first));
  CHECK(nn::PerformerConfig{}.redraw == 1000);
  AttentionModel wide(rng, config({.features = 5}));
  CHECK(omega_of(wide).shape() == Shape{5, 8});
}

TEST_CASE("PerformerAttention: every layer of a model draws its own features, and a resumed run the same ones") {
  const auto make = [](Generator& rng) {
    return std::make_unique<nn::DecoderLM>(
        rng,
        nn::DecoderConfig{.vocabulary = 5, .context = 6, .layers = 2, .block = {.attention = config({.redraw = 2})}});
  };
  const Tensor ids = tensor<int64_t>({0, 1, 2, 3, 4, 0}).reshape({1, 6});
  const auto train = [&](nn::DecoderLM& model, nn::AdamW& optimizer, int64_t from, int64_t to) {
    for (int64_t step = from; step < to; ++step) {
      model.begin_step(step);
      backward(cross_entropy(model(ids), ids));
      optimizer.step();
      optimizer.zero_grad();
    }
  };
  Generator rng(2);
  const auto whole = make(rng);
  nn::AdamW optimizer(whole->parameters());
  const Tensor first = whole->state().at("blocks.0.attention.omega").clone();
  CHECK_FALSE(same_bits(first, whole->state().at("blocks.1.attention.omega")));
  train(*whole, optimizer, 0, 5);
  CHECK_FALSE(same_bits(first, whole->state().at("blocks.0.attention.omega")));

  // Stops after every step: the state is copied to another model, which continues.
  for (int64_t stop = 0; stop <= 5; ++stop) {
    CAPTURE(stop);
    Generator other(2), later(99);
    const auto before = make(other), after = make(later);
    nn::AdamW old(before->parameters()), resumed(after->parameters());
    train(*before, old, 0, stop);
    after->load_state(*before);
    resumed.load_state(old.state());
    later.set_state(other.state());
    train(*after, resumed, stop, 5);
    for (const auto& [name, tensor] : whole->state()) CHECK(same_bits(after->state().at(name), tensor));
  }
}

TEST_CASE("PerformerAttention: the step form of large tokens, whose exponents grow on the way") {
  for (const double size : {1.0, 20.0, 100.0}) {
    CAPTURE(size);
    Generator rng(7);
    const AttentionModel model(rng, config({}, true));
    Tensor x = randn({2, 70, 16}, rng, DType::float64) * size;
    const Tensor sequence = (*model.attention)(x);
    const auto state = model.attention->start();
    std::vector<Tensor> steps;
    for (int64_t t = 0; t < 70; ++t) steps.push_back(model.attention->step(*state, x.select(1, t)));
    CHECK(test::relative_error(stack(steps, 1), sequence.to_vector<double>()) < 1e-9);
  }
}

TEST_CASE("PerformerAttention: a file says how often features are drawn anew, and evaluation may differ in it") {
  Generator rng(1);
  const AttentionModel model(rng, config({.redraw = 3}));
  AttentionModel other(rng, config({.redraw = 50}));
  CHECK(model.settings_metadata().at("linnet.settings.attention.performer_redraw") == "3");
  CHECK(other.load_state(model).settings.empty());
  CHECK(same_bits(omega_of(other), omega_of(model)));
  AttentionModel narrow(rng, config({.features = 5}));
  CHECK_THROWS_WITH_AS(narrow.load_state(model), doctest::Contains("attention.omega"), ValueError);
}
