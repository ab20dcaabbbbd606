#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/layers/softmax.h>

#include "tests/ops/fastformer/additive_reference.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// The same for a pool over all tokens, which gives one row.
std::vector<double> expand_rows(const Tensor& pooled, const Shape& shape) {
  return pooled.expand(shape).to_vector<double>();
}

}  // namespace

TEST_CASE("attention_pool is the explicit formula") {
  const Tensor scores = normal({2, 2, 33}, 1), x = normal({2, 2, 33, 5}, 2);
  CHECK(relative_error(attention_pool(scores, x, {.causal = true}), pool_reference(scores, x, sees(33, 33, true))) <
        1e-14);
  const Tensor all = attention_pool(scores, x);
  CHECK(all.shape() == Shape{2, 2, 1, 5});
  CHECK(relative_error(expand_rows(all, x.shape()), pool_reference(scores, x, sees(33, 33, false))) < 1e-14);
}

TEST_CASE("attention_pool keeps its digits at logits of ±80 and beyond") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const double bound = dtype == DType::float64 ? 1e-14 : 1e-6;
    const Tensor x = normal({1, 2, 200, 3}, 2, dtype);
    for (const double size : {80.0, 1e4}) {
      const Tensor scores = mul(normal({1, 2, 200}, 1, dtype), size);
      const Tensor rising = mul(sub(arange(200, dtype), 100), size / 100).expand({1, 2, 200});
      for (const Tensor& s : {scores, rising, neg(rising)}) {
        CHECK(relative_error(attention_pool(s, x, {.causal = true}), pool_reference(s, x, sees(200, 200, true))) <
              bound);
        CHECK(relative_error(expand_rows(attention_pool(s, x), x.shape()),
                             pool_reference(s, x, sees(200, 200, false))) < bound);
      }
    }
  }
}

TEST_CASE("The gradients of attention_pool keep their digits at logits of ±80") {
  // Causal pooling is softmax over each prefix. The expected gradients are computed in this way, one prefix at a
  // time.
  const int64_t n = 12;
  Tensor scores = mul(normal({1, 1, n}, 1), 80).set_requires_grad();
  Tensor x = normal({1, 1, n, 2}, 2).set_requires_grad();
  const Tensor g = normal({1, 1, n, 2}, 3);
  const std::vector<Tensor> actual =
      grad({attention_pool(scores, x, {.causal = true})}, {scores, x}, {.grad_outputs = {g}});
  Tensor total = zeros({}, DType::float64);
  for (int64_t i = 0; i < n; ++i) {
    const Tensor weights = softmax(scores.narrow(2, 0, i + 1)).unsqueeze(-1);
    total = total + sum(mul(sum(mul(weights, x.narrow(2, 0, i + 1)), {2}), g.select(2, i)));
  }
  const std::vector<Tensor> expected = grad({total}, {scores, x});
  for (size_t i = 0; i < 2; ++i) CHECK(relative_error(actual[i], expected[i].to_vector<double>()) < 1e-12);
}

TEST_CASE("attention_pool takes scores of −∞ as padding") {
  Tensor scores = tensor({-kInfinity, 1, -kInfinity, 2}, {1, 1, 4}, DType::float64);
  const Tensor x = normal({1, 1, 4, 2}, 1);
  for (const bool causal : {false, true}) {
    const Tensor padding_mask = keep_all_but(1, 4, {{0, 0}, {0, 2}});
    CHECK(same_bits(attention_pool(scores, x, {.causal = causal}),
                    attention_pool(scores, x, {.causal = causal, .padding_mask = padding_mask})));
  }
}

TEST_CASE("attention_pool says what is wrong") {
  const Tensor x = normal({2, 3, 4, 5}, 1);
  CHECK_THROWS_WITH_AS(
      attention_pool(normal({2, 3, 5}, 1), x, {}, {"a.cpp", 1}),
      "attention_pool: scores[2, 3, 5] do not fit x[2, 3, 4, 5]: they must be [batch, heads, tokens], "
      "one for each token (a.cpp:1)",
      ShapeError);
  CHECK_THROWS_AS(attention_pool(normal({2, 3, 4}, 1), x.reshape({2, 3, 20})), ShapeError);
  CHECK_THROWS_AS(attention_pool(normal({2, 3, 4}, 1, DType::float32), x), DTypeError);
  CHECK_THROWS_AS(attention_pool(normal({2, 3, 4}, 1), x, {.padding_mask = ones({2, 5}, DType::boolean)}),
                  ShapeError);
}
