#include <doctest/doctest.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/fastformer/fastformer.h>
#include <linnet/ops/fastmax/fastmax.h>
#include <linnet/ops/layers/normalisation.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"

/// The weights of the attentions as matrices, compared with explicit N×N formulas and with the attentions' results.

namespace linnet::test {
namespace {

using Weight = std::function<double(int64_t b, int64_t h, int64_t i, int64_t j)>;

/// weight(i, j) / sum_j weight(i, j) over the keys seen: the mean of unit vectors.
std::vector<double> normalised(const Weight& weight, const Tensor& like, const Sees& sees) {
  const int64_t tokens = like.size(2);
  return weighted_means(
      weight, tokens, eye(tokens, tokens, DType::float64).expand({like.size(0), like.size(1), tokens, tokens}), sees);
}

Weight exponential(const Weight& score) {
  return [=](int64_t b, int64_t h, int64_t i, int64_t j) { return std::exp(score(b, h, i, j)); };
}

/// In the first sequence tokens 0 and 4 are hidden; if causal, its token 0 sees nothing.
Tensor padding() { return keep_all_but(2, 7, {{0, 0}, {0, 4}}); }

/// Checks that hidden weights are exactly 0, and that every row with a visible key sums to 1.
void check_rows(const Tensor& weights, const Sees& sees) {
  const std::vector<double> w = weights.to_vector<double>();
  const Shape& size = weights.shape();
  size_t at = 0;
  for (int64_t row = 0; row < size[0] * size[1] * size[2]; ++row) {
    const int64_t b = row / size[2] / size[1], i = row % size[2];
    double total = 0;
    bool any = false;
    for (int64_t j = 0; j < size[3]; ++j, ++at) {
      total += w[at];
      any = any || sees(b, i, j);
      if (!sees(b, i, j)) CHECK(w[at] == 0);
    }
    CHECK(total == doctest::Approx(any ? 1 : 0).epsilon(1e-13));
  }
}

struct Case {
  bool causal;
  Tensor padding_mask;
};

std::vector<Case> cases() { return {{false, {}}, {true, {}}, {false, padding()}, {true, padding()}}; }

}  // namespace

TEST_CASE("softmax_attention_weights are the explicit formula, and times values what softmax_attention gives") {
  const Tensor q = normal({2, 3, 7, 4}, 1), k = normal({2, 3, 7, 4}, 2), v = normal({2, 3, 7, 4}, 3);
  for (const auto& [causal, padding_mask] : cases()) {
    CAPTURE(causal);
    const SoftmaxAttentionOptions options{.causal = causal, .scale = 0.8, .padding_mask = padding_mask};
    const Sees seen = sees(7, 7, causal, padding_mask);
    const Tensor weights = softmax_attention_weights(q, k, options);
    check_rows(weights, seen);
    CHECK(relative_error(weights, normalised(exponential(scores(q, k, 0.8)), q, seen)) < 1e-14);
    CHECK(relative_error(matmul(weights, v), softmax_attention(q, k, v, options).to_vector<double>()) < 1e-14);
  }
  // The default scale, and causal prefixes with more keys than queries.
  const Tensor last = q.narrow(2, 4, 3);
  const Tensor weights = softmax_attention_weights(last, k, {.causal = true});
  check_rows(weights, sees(3, 7, true));
  CHECK(relative_error(matmul(weights, v), softmax_attention(last, k, v, {.causal = true}).to_vector<double>()) <
        1e-14);
}

TEST_CASE("fastmax_weights are eq. 7, and times values what every form of fastmax gives") {
  const Tensor q = normal({2, 3, 7, 4}, 4), k = normal({2, 3, 7, 4}, 5), v = normal({2, 3, 7, 4}, 6);
  const Tensor q_hat = layer_norm(q, {}, {}, 1e-5), k_hat = layer_norm(k, {}, {}, 1e-5);
  for (const auto& [causal, padding_mask] : cases()) {
    for (const int order : {1, 2}) {
      CAPTURE(causal);
      CAPTURE(order);
      FastmaxOptions options{
          .order = order, .scale = order == 1 ? 0.2 : 0.5, .causal = causal, .padding_mask = padding_mask};
      const Weight s = scores(q_hat, k_hat, std::get<double>(options.scale));
      const Weight f = [=](int64_t b, int64_t h, int64_t i, int64_t j) {
        const double score = s(b, h, i, j);
        return 1 + score + (order == 2 ? score * score / 2 : 0);
      };
      const Sees seen = sees(7, 7, causal, padding_mask);
      const Tensor weights = fastmax_weights(q, k, options);
      check_rows(weights, seen);
      CHECK(relative_error(weights, normalised(f, q, seen)) < 1e-13);
      for (const FastmaxForm form : {FastmaxForm::quadratic, FastmaxForm::factorised, FastmaxForm::reference}) {
        options.form = form;
        CHECK(relative_error(matmul(weights, v), fastmax(q, k, v, options).to_vector<double>()) < 1e-12);
      }
    }
  }
}

TEST_CASE("additive_attention_weights are α and β of eqs. 3 and 5, and make what additive_attention gives") {
  const Tensor q = normal({2, 3, 7, 4}, 7), k = normal({2, 3, 7, 4}, 8), v = normal({2, 3, 7, 4}, 9);
  const std::vector<AdditiveStage> stages{{normal({3, 4}, 10)}, {normal({3, 4}, 11)}};
  /// softmax(w·x_j/√D): the scores if the query of every token is w.
  const auto expected = [&](const Tensor& w, const Tensor& x, const Sees& seen) {
    const Tensor query = w.unsqueeze(1).expand({2, 3, 7, 4}).contiguous();
    return normalised(exponential(scores(query, x, 0.5)), x, seen);
  };
  for (const auto& [causal, padding_mask] : cases()) {
    CAPTURE(causal);
    const AdditiveAttentionOptions options{.causal = causal, .padding_mask = padding_mask};
    const Sees seen = sees(7, 7, causal, padding_mask);
    const std::vector<Tensor> weights = additive_attention_weights({q, k, v}, stages, options);
    REQUIRE(weights.size() == 2);
    for (const Tensor& w : weights) {
      CHECK(w.shape() == Shape{2, 3, causal ? 7 : 1, 7});
      check_rows(w, seen);
    }
    const auto rows = [](const Tensor& w) { return w.expand({2, 3, 7, 7}).contiguous(); };
    const Tensor p = matmul(weights[0], q) * k, u = matmul(weights[1], p) * v;
    CHECK(relative_error(rows(weights[0]), expected(stages[0].weight, q, seen)) < 1e-14);
    CHECK(relative_error(rows(weights[1]), expected(stages[1].weight, p, seen)) < 1e-14);
    CHECK(relative_error(u, additive_attention({q, k, v}, stages, options).to_vector<double>()) < 1e-13);
  }
}

TEST_CASE("the weights of attentions: what does not fit is refused by name") {
  const Tensor x = normal({1, 2, 3, 4}, 12);
  CHECK_THROWS_WITH_AS(
      softmax_attention_weights(x, normal({1, 2, 3, 5}, 13)),
      doctest::Contains("softmax_attention_weights: q[1, 2, 3, 4] and k[1, 2, 3, 5] differ in width"), ShapeError);
  CHECK_THROWS_WITH_AS(fastmax_weights(x, x.select(0, 0)),
                       doctest::Contains("fastmax_weights: k[2, 3, 4] has rank 3"), ShapeError);
  CHECK_THROWS_WITH_AS(fastmax_weights(x, x, {.order = 1, .scale = FastmaxScale::paper}),
                       doctest::Contains("weights must be positive"), ValueError);
  CHECK_THROWS_WITH_AS(additive_attention_weights({x, x, x}, {}),
                       doctest::Contains("additive_attention_weights: 3 projections need 2 stages"), ValueError);
}

}  // namespace linnet::test
