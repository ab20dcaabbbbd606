/// The step forms at the end of a long text, where a float32 sum over all its tokens would have lost precision.

#include <cmath>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "tests/nn/attention/attention_model.h"

using namespace linnet;
using test::AttentionModel;

namespace {

constexpr int64_t kTokens = 20'000, kWidth = 4;

/// The float32 step form's result for the last of the tokens x [1, N, C], and its relative error compared with the
/// float64 sequence form.
double error_at_the_end(const nn::AttentionConfig& config, const Tensor& x) {
  Generator rng(41);
  const AttentionModel model(rng, config, DType::float32);
  AttentionModel exact(rng, config, DType::float64);
  TensorMap weights = model.state();
  for (auto& [name, tensor] : weights) tensor = tensor.to(DType::float64);
  exact.load_state(weights);

  const NoGrad no_grad;
  const int64_t tokens = x.size(1);
  const auto state = model.attention->start();
  Tensor last;
  for (int64_t t = 0; t < tokens; ++t) last = model.attention->step(*state, x.select(1, t));
  const Tensor expected = (*exact.attention)(x.to(DType::float64)).select(1, tokens - 1);
  const Tensor difference = last.to(DType::float64) - expected;
  return norm(difference).item<double>() / norm(expected).item<double>();
}

}  // namespace

TEST_CASE("attention: the step form in float32 keeps its digits to the end of a long text") {
  for (const std::string& mechanism : nn::causal_mechanisms()) {
    if (mechanism == "softmax" || mechanism == "longformer") continue;  // they keep no sums; see below
    if (!nn::find_mechanism(mechanism).step) continue;
    CAPTURE(mechanism);
    const nn::AttentionConfig config{.mechanism = mechanism, .width = kWidth, .causal = true};
    Generator rng(42);
    const Tensor random = randn({1, kTokens, kWidth}, rng);
    CHECK(error_at_the_end(config, random) < 1e-6);
    // The same token again and again, so that sums grow. If each token were added to one sum, the error would be 1e-4
    // or more.
    const Tensor same = randn({1, 1, kWidth}, rng).expand({1, kTokens, kWidth}).contiguous();
    CHECK(error_at_the_end(config, same) < 1e-5);
    // Scores whose powers overflow float32.
    CHECK(error_at_the_end(config, random.narrow(1, 0, 600) * 400) < 1e-5);
  }
}

TEST_CASE("attention: the step form of softmax in float32 keeps its digits over many keys") {
  const nn::AttentionConfig config{.mechanism = "softmax", .width = kWidth, .causal = true};
  Generator rng(43);
  const Tensor random = randn({1, 2000, kWidth}, rng);
  CHECK(error_at_the_end(config, random) < 1e-6);
  CHECK(error_at_the_end(config, random * 400) < 1e-5);
  // A step late in a text is one query with many keys; getting there by steps would take N². First the keys are
  // equal, so that sums grow. Then they differ, with scores around 1 and up to some hundred, compared with float64.
  const Shape many{1, 1, kTokens, kWidth};
  const Tensor q = randn({1, 1, 1, kWidth}, rng), k = randn({1, 1, 1, kWidth}, rng),
               v = randn({1, 1, 1, kWidth}, rng);
  const Tensor mean = softmax_attention(q, k.expand(many).contiguous(), v.expand(many).contiguous());
  CHECK(norm(mean - v).item<double>() < 1e-5 * norm(v).item<double>());
  const Tensor keys = randn(many, rng), values = randn(many, rng);
  for (const double size : {1.0, 60.0}) {
    CAPTURE(size);
    const Tensor query = full({1, 1, 1, kWidth}, size);
    const Tensor scores = matmul(query.to(DType::float64), transpose(keys.to(DType::float64))) / std::sqrt(kWidth);
    const Tensor expected = matmul(softmax(scores), values.to(DType::float64));
    const Tensor difference = softmax_attention(query, keys, values).to(DType::float64) - expected;
    CHECK(norm(difference).item<double>() < 1e-5 * size * norm(expected).item<double>());
  }
}
