#include <doctest/doctest.h>

#include <memory>
#include <string>

#include <linnet/linnet.h>

#include "tests/support/near.h"

using namespace linnet;

namespace {

/// A simple first attention: each token gets the mean of the tokens up to it, without queries and keys.
class MeanAttention : public nn::Attention {
 public:
  MeanAttention(Module& parent, std::string name, const nn::AttentionConfig& config)
      : Attention(parent, std::move(name), config) {}

 private:
  struct Sum : nn::AttentionState {
    Tensor of_tokens;
  };

  Tensor forward(const Tensor& x, const Tensor&) const override {
    return cumsum(x, 1) / (arange(x.size(1)).to(x.dtype()) + 1).reshape({1, -1, 1});
  }
  std::vector<nn::AttentionMap> forward_maps(const Tensor& x, const Tensor&) const override {
    const Tensor seen = tril(ones({x.size(1), x.size(1)}, x.dtype()));
    return {{"", (seen / sum(seen, {1}, true)).reshape({1, 1, x.size(1), x.size(1)})}};
  }
  std::unique_ptr<nn::AttentionState> start_state() const override { return std::make_unique<Sum>(); }
  Tensor forward_step(nn::AttentionState& state, const Tensor& x) const override {
    Tensor& total = static_cast<Sum&>(state).of_tokens;
    total = total.defined() ? total + x : x;
    return total / (state.tokens() + 1);
  }
};

}  // namespace

TEST_CASE("attention: one of a user's own serves any model, in both forms") {
  nn::AttentionConfig mean{.mechanism = "mean", .width = 8, .heads = 2};
  mean.make = [](nn::Module& parent, std::string name, const nn::AttentionConfig& config) {
    return std::make_unique<MeanAttention>(parent, std::move(name), config);
  };
  Generator rng(3);
  nn::DecoderLM model(rng, {.vocabulary = 5, .context = 6, .layers = 2, .block = {.attention = mean}});
  model.eval();
  const NoGrad no_grad;
  const Tensor text = randint(0, 5, {2, 6}, rng), logits = model(text);
  nn::DecoderState state = model.start();
  for (int64_t i = 0; i < 6; ++i) {
    CHECK(test::largest_difference(model.step(state, text.select(1, i)), logits.select(1, i)) < 1e-5);
  }
  CHECK(model.summary().find("mean attention, width 8, heads 2") != std::string::npos);
  CHECK_THROWS_WITH_AS(state.layers[0]->select(zeros({2}, DType::int64)),
                       doctest::Contains("cannot be selected from; override AttentionState::visit"), ValueError);
}
