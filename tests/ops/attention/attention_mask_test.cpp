#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"

/// softmax_attention with attn_mask, which says for each pair whether the query sees the key, or what is added to the
/// score.

namespace linnet::test {
namespace {

struct MaskedQkv {
  Tensor q, k, v;

  MaskedQkv(int64_t n, int64_t m, DType dtype = DType::float64)
      : q(normal({2, 3, n, 4}, 1, dtype)), k(normal({2, 3, m, 4}, 2, dtype)), v(normal({2, 3, m, 4}, 3, dtype)) {}

  /// Output and gradients.
  std::vector<Tensor> results(const SoftmaxAttentionOptions& options) {
    for (Tensor* x : {&q, &k, &v}) {
      *x = x->detach();
      x->set_requires_grad();
    }
    const Tensor o = softmax_attention(q, k, v, options);
    std::vector<Tensor> all = grad({o}, {q, k, v}, {.grad_outputs = {normal(o.shape(), 4, o.dtype())}});
    all.push_back(o.detach());
    return all;
  }
};

void check_near(const std::vector<Tensor>& x, const std::vector<Tensor>& expected, double tolerance) {
  REQUIRE(x.size() == expected.size());
  for (size_t i = 0; i < x.size(); ++i) CHECK(relative_error(x[i], expected[i].to_vector<double>()) < tolerance);
}

/// True where j ≤ i.
Tensor lower_triangle(int64_t n) { return le(arange(n).unsqueeze(0), arange(n).unsqueeze(1)); }

}  // namespace

TEST_CASE("softmax_attention: a bool attn_mask says what is seen, as causal and padding_mask do") {
  MaskedQkv in(7, 7);
  check_near(in.results({.attn_mask = lower_triangle(7)}), in.results({.causal = true}), 1e-14);
  const Tensor padding_mask = keep_all_but(2, 7, {{0, 0}, {0, 4}});
  const Tensor of_keys = padding_mask.unsqueeze(1).unsqueeze(1);
  check_near(in.results({.attn_mask = of_keys}), in.results({.padding_mask = padding_mask}), 1e-14);
  // Together: query 0 of sequence 0 sees nothing, gives 0 and has no gradient.
  const SoftmaxAttentionOptions both{.causal = true, .padding_mask = padding_mask};
  check_near(in.results({.padding_mask = padding_mask, .attn_mask = lower_triangle(7)}), in.results(both), 1e-14);
  check_near(in.results({.causal = true, .attn_mask = of_keys}), in.results(both), 1e-14);
}

TEST_CASE("softmax_attention: a floating attn_mask is added to the scores") {
  const MaskedQkv in(3, 5);
  const Tensor bias = normal({3, 1, 5}, 6);  // for each head, the same for all queries
  const std::vector<double> added = bias.to_vector<double>();
  const auto score = scores(in.q, in.k, 0.5);
  const auto weight = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    return std::exp(score(b, h, i, j) + added[static_cast<size_t>(h * 5 + j)]);
  };
  const std::vector<double> expected = weighted_means(weight, 3, in.v, sees(3, 5, false));
  const SoftmaxAttentionOptions options{.attn_mask = bias};
  CHECK(relative_error(softmax_attention(in.q, in.k, in.v, options), expected) < 1e-14);
  const Tensor weights = softmax_attention_weights(in.q, in.k, options);
  CHECK(relative_error(matmul(weights, in.v), expected) < 1e-14);
  // -infinity hides a key.
  MaskedQkv square(7, 7);
  const double never = -std::numeric_limits<double>::infinity();
  const Tensor hidden = where(lower_triangle(7), zeros({7, 7}, DType::float64), never);
  check_near(square.results({.attn_mask = hidden}), square.results({.causal = true}), 1e-14);
}

TEST_CASE("softmax_attention with attn_mask: padded contents change no bit, and heads merge without a copy") {
  const Tensor padding_mask = keep_all_but(2, 7, {{0, 0}, {1, 6}});
  MaskedQkv in(7, 7, DType::float32);
  const SoftmaxAttentionOptions options{.padding_mask = padding_mask, .attn_mask = lower_triangle(7)};
  const std::vector<Tensor> expected = in.results(options);
  CHECK(expected.back().transpose(1, 2).is_contiguous());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (Tensor* x : {&in.k, &in.v}) *x = with_tokens(with_tokens(*x, 0, 0, 1, nan), 1, 6, 7, nan);
  const std::vector<Tensor> results = in.results(options);
  for (size_t i = 0; i < results.size(); ++i) CHECK(same_bits(results[i], expected[i]));
}

TEST_CASE("softmax_attention with attn_mask drops weights, with one draw") {
  const MaskedQkv in(200, 200, DType::float32);
  const Tensor zero = zeros({1}), v = ones({2, 3, 200, 4});
  Generator generator(5), other(5);
  const Tensor o =
      softmax_attention(in.q * 0, in.k, v, {.attn_mask = zero, .dropout = 0.25, .generator = &generator});
  CHECK(o.mean().item<double>() == doctest::Approx(1).epsilon(0.01));
  const Tensor kept = o * (200 * 0.75);  // the number of keys that a query has kept
  CHECK(kept.var({0, 1, 2, 3}).sqrt().item<double>() == doctest::Approx(std::sqrt(200 * 0.25 * 0.75)).epsilon(0.1));
  softmax_attention(in.q, in.k, v, {.dropout = 0.25, .generator = &other});
  CHECK(same_bits(randn({4}, generator), randn({4}, other)));
}

TEST_CASE("softmax_attention refuses an attn_mask that does not fit") {
  const MaskedQkv in(3, 5);
  const auto call = [&](const Tensor& mask) {
    return softmax_attention(in.q, in.k, in.v, {.attn_mask = mask}, {"a.cpp", 1});
  };
  CHECK_THROWS_WITH_AS(call(ones({2, 5}, DType::boolean)),
                       "softmax_attention: attn_mask[2, 5] does not broadcast to [batch, heads, queries, keys], "
                       "[2, 3, 3, 5] (a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_AS(call(ones({1, 1, 1, 1, 5}, DType::boolean)), ShapeError);
  CHECK_THROWS_WITH_AS(call(ones({3, 5}, DType::float32)),
                       "softmax_attention: attn_mask is float32; it must be bool, false where a query does not see "
                       "a key, or float64, added to the scores (a.cpp:1)",
                       DTypeError);
  CHECK_THROWS_AS(softmax_attention_weights(in.q, in.k, {.attn_mask = ones({2, 5}, DType::boolean)}), ShapeError);
  const Tensor mask = ones({3, 5}, DType::boolean);
  CHECK_THROWS_AS(softmax_attention(in.q, in.k.to(DType::float32), in.v, {.attn_mask = mask}), DTypeError);
}

}  // namespace linnet::test
