#include <linnet/ops/attention/performer_attention.h>

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

/// Compares FAVOR+ with its formula in float64 and another author's code. Also tests properties of all attentions.

using namespace linnet;
using namespace linnet::test;

namespace {

constexpr PerformerForm kForms[] = {PerformerForm::automatic, PerformerForm::composed, PerformerForm::reference};

Tensor projection(int64_t features, int64_t width, DType dtype = DType::float64, uint64_t seed = 31) {
  Generator generator(seed);
  return performer_projection(features, width, generator, dtype);
}

struct Inputs {
  Tensor q, k, v, omega;
};

/// m = 2·D + 3 features, so that the last block is not full.
Inputs normal_inputs(int64_t b, int64_t h, int64_t n, int64_t m, int64_t d, DType dtype = DType::float64) {
  return {normal({b, h, n, d}, 1, dtype), normal({b, h, m, d}, 2, dtype), normal({b, h, m, d}, 3, dtype),
          projection(2 * d + 3, d, dtype)};
}

/// The formula, weight by weight, from the logarithms of features in float64. The exponents are relative to the
/// largest sum of two logarithms that a query sees.
std::vector<double> reference(const Inputs& in, const Sees& sees) {
  const auto exponents = [&](const Tensor& x) {
    return performer_log_features(x.to(DType::float64), in.omega.to(DType::float64));
  };
  const Tensor of_queries = exponents(in.q), of_keys = exponents(in.k);
  const std::vector<double> a = of_queries.to_vector<double>(), c = of_keys.to_vector<double>();
  const int64_t heads = in.q.size(1), n = in.q.size(2), m = in.k.size(2), features = in.omega.size(0);
  const auto each = [&](int64_t b, int64_t h, int64_t i, int64_t j, const auto& f) {
    const auto query = static_cast<size_t>(((b * heads + h) * n + i) * features);
    const auto key = static_cast<size_t>(((b * heads + h) * m + j) * features);
    for (size_t r = 0; r < static_cast<size_t>(features); ++r) f(a[query + r] + c[key + r]);
  };
  std::vector<double> largest;
  for (int64_t b = 0; b < in.q.size(0); ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < n; ++i) {
        double most = -kInfinity;
        for (int64_t j = 0; j < m; ++j) {
          if (sees(b, i, j)) each(b, h, i, j, [&](double x) { most = std::max(most, x); });
        }
        largest.push_back(most);
      }
    }
  }
  const auto weight = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    double total = 0;
    const double most = largest[static_cast<size_t>((b * heads + h) * n + i)];
    each(b, h, i, j, [&](double x) { total += std::exp(x - most); });
    return total;
  };
  return weighted_means(weight, n, in.v, sees);
}

/// Gradients of q, k and v under a cotangent drawn from seed 4, and the output.
std::vector<Tensor> forward_backward(Inputs in, const PerformerAttentionOptions& options) {
  for (Tensor* x : {&in.q, &in.k, &in.v}) {
    *x = x->detach();
    x->set_requires_grad();
  }
  const Tensor o = performer_attention(in.q, in.k, in.v, in.omega, options);
  std::vector<Tensor> results = grad({o}, {in.q, in.k, in.v}, {.grad_outputs = {normal(o.shape(), 4, o.dtype())}});
  results.push_back(o.detach());
  return results;
}

bool all_finite(const Tensor& x) {
  for (const double value : x.to_vector<double>()) {
    if (!std::isfinite(value)) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("performer_attention is what the formula gives another author, and his code with its ε to 2 %") {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const std::string name = causal ? "performer_causal" : "performer";
    const std::filesystem::path path =
        std::filesystem::path(LINNET_TEST_DATA) / ("goldens/mechanisms/" + name + ".safetensors");
    const TensorMap file = read_safetensors(path).tensors;
    const auto error = [&](const Tensor& actual, const std::string& of) {
      return relative_error(actual, file.at(of).to_vector<double>());
    };
    for (const PerformerForm form : kForms) {
      CAPTURE(static_cast<int>(form));
      Tensor q = file.at("test.q").clone().set_requires_grad(), k = file.at("test.k").clone().set_requires_grad(),
             v = file.at("test.v").clone().set_requires_grad();
      const Tensor o = performer_attention(q, k, v, file.at("omega"), {.causal = causal, .form = form});
      CHECK(error(o, "exact.output") < 1e-12);
      CHECK(error(o, "test.output") < 0.02);
      const std::vector<Tensor> gradients = grad({o}, {q, k, v}, {.grad_outputs = {file.at("test.cotangent")}});
      CHECK(error(gradients[0], "exact.grad.q") < 1e-10);
      CHECK(error(gradients[1], "exact.grad.k") < 1e-10);
      CHECK(error(gradients[2], "exact.grad.v") < 1e-10);
    }
  }
}

TEST_CASE("performer_attention is the explicit formula, in every form") {
  for (const bool causal : {false, true}) {
    for (const auto& [n, m] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 5}, {64, 64}, {65, 65}, {140, 140}, {3, 70}, {70, 3}}) {
      CAPTURE(causal);
      CAPTURE(n);
      CAPTURE(m);
      const Inputs in = normal_inputs(2, 2, n, m, 5);
      const std::vector<double> expected = reference(in, sees(n, m, causal));
      for (const PerformerForm form : kForms) {
        CAPTURE(static_cast<int>(form));
        const Tensor o = performer_attention(in.q, in.k, in.v, in.omega, {.causal = causal, .form = form});
        CHECK(relative_error(o, expected) < 1e-13);
      }
    }
  }
}

TEST_CASE("performer_attention in float32 is as exact as its sums") {
  Inputs in = normal_inputs(1, 1, 150, 150, 32, DType::float32);
  in.omega = projection(110, 32, DType::float32);
  for (const bool causal : {false, true}) {
    for (const PerformerForm form : kForms) {
      const Tensor o = performer_attention(in.q, in.k, in.v, in.omega, {.causal = causal, .form = form});
      CHECK(o.dtype() == DType::float32);
      CHECK(relative_error(o, reference(in, sees(150, 150, causal))) < 2e-6);
    }
  }
}

TEST_CASE("performer_attention: gradients of the fused form are those of the explicit weights, over many chunks") {
  for (const int64_t heads : {2, 17}) {  // chunks in parallel, and one head after the other
    const int64_t tokens = heads == 2 ? 530 : 270;
    const Tensor padding_mask = keep_all_but(1, tokens, {{0, 0}, {0, 130}, {0, 131}, {0, tokens - 1}});
    for (const PerformerAttentionOptions& options :
         {PerformerAttentionOptions{}, {.causal = true}, {.causal = true, .padding_mask = padding_mask}}) {
      for (const double size : {1.0, 6.0}) {  // with large numbers a chunk has many runs
        CAPTURE(heads);
        CAPTURE(options.causal);
        CAPTURE(size);
        Inputs in = normal_inputs(1, heads, tokens, tokens, heads == 2 ? 5 : 1);
        in.q = in.q * size;
        in.k = in.k * size;
        PerformerAttentionOptions by_formula = options;
        by_formula.form = PerformerForm::reference;
        const std::vector<Tensor> expected = forward_backward(in, by_formula),
                                  results = forward_backward(in, options);
        for (size_t i = 0; i < results.size(); ++i) {
          CAPTURE(i);
          CHECK(relative_error(results[i], expected[i].to_vector<double>()) < 1e-11);
        }
      }
    }
  }
}

TEST_CASE(
    "performer_attention leaves out padded keys, whatever they hold; without keys it is 0 and has no gradient") {
  const Inputs in = normal_inputs(2, 2, 6, 6, 3);
  const Tensor padding_mask = keep_all_but(2, 6, {{0, 0}, {0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}});
  for (const bool causal : {false, true}) {
    for (const PerformerForm form : kForms) {
      CAPTURE(causal);
      CAPTURE(static_cast<int>(form));
      const PerformerAttentionOptions options{.causal = causal, .padding_mask = padding_mask, .form = form};
      const std::vector<Tensor> expected = forward_backward(in, options);
      CHECK(relative_error(expected[3], reference(in, sees(6, 6, causal, padding_mask))) < 1e-13);
      for (const Tensor& x : expected) CHECK(sum(x.narrow(0, 1, 1) * x.narrow(0, 1, 1)).item<double>() == 0);
      for (const double value : {1e30, -1e30, kNan, kInfinity}) {
        CAPTURE(value);
        Inputs changed = in;
        changed.k = with_tokens(with_tokens(in.k, 0, 3, 4, value), 1, 0, 6, value);
        changed.v = with_tokens(with_tokens(in.v, 0, 3, 4, value), 1, 0, 6, value);
        check_same_bits(forward_backward(changed, options), expected);
      }
    }
  }
}

TEST_CASE("Causal performer_attention: the future changes no bit of the past") {
  for (const int64_t heads : {2, 17}) {
    const Inputs in = normal_inputs(1, heads, 300, 300, 24, DType::float32);
    const PerformerAttentionOptions options{.causal = true};
    const Tensor expected = performer_attention(in.q, in.k, in.v, in.omega, options);
    for (const int64_t t : {1, 16, 63, 64, 270, 299}) {
      for (const double value : {3.0, 30.0, kNan, kInfinity}) {
        CAPTURE(t);
        CAPTURE(value);
        const Tensor o = performer_attention(with_tokens(in.q, 0, t, 300, value), with_tokens(in.k, 0, t, 300, value),
                                             with_tokens(in.v, 0, t, 300, value), in.omega, options);
        CHECK(same_bits(o.narrow(2, 0, t), expected.narrow(2, 0, t)));
      }
    }
  }
}

TEST_CASE("performer_attention does not care for the order of the keys") {
  const Inputs in = normal_inputs(1, 2, 90, 90, 8);
  Generator rng(5);
  const Tensor order = randperm(90, rng);
  for (const PerformerForm form : kForms) {
    const Tensor o = performer_attention(in.q, in.k, in.v, in.omega, {.form = form});
    const Tensor other = performer_attention(in.q, index_select(in.k, 2, order), index_select(in.v, 2, order),
                                             in.omega, {.form = form});
    CHECK(relative_error(other, o.to_vector<double>()) < 1e-13);
  }
}

TEST_CASE("performer_attention and its gradients are the same for any number of threads") {
  for (const int64_t batch : {1, 9}) {
    const Inputs in = normal_inputs(batch, 2, 1100, 1100, 16, DType::float32);
    for (const bool causal : {false, true}) {
      Generator generator(11);
      check_threads_change_no_bit([&] {
        generator.set_state({11, 0});
        return forward_backward(in, {.causal = causal, .dropout = 0.1, .generator = &generator});
      });
    }
  }
}

TEST_CASE("performer_attention stays finite and right for large numbers") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    for (const auto& [size, bound] : {std::pair{30.0, 1e-3}, {100.0, 1e-2}}) {
      for (const bool causal : {false, true}) {
        Inputs in = normal_inputs(1, 1, 96, 96, 64, dtype);
        in.omega = projection(266, 64, dtype);
        in.q = in.q * size;
        in.k = in.k * size;
        // Exponents reach −size²·√D/2, so their rounding in float32 is 10⁻³ and more.
        const std::vector<double> expected = reference(in, sees(96, 96, causal));
        for (const PerformerForm form : kForms) {
          CAPTURE(size);
          CAPTURE(causal);
          CAPTURE(static_cast<int>(form));
          const std::vector<Tensor> results = forward_backward(in, {.causal = causal, .form = form});
          for (const Tensor& x : results) CHECK(all_finite(x));
          CHECK(relative_error(results[3], expected) < (dtype == DType::float32 ? bound : 1e-10));
        }
      }
    }
  }
}

TEST_CASE("Causal performer_attention: a large key drowns neither earlier queries nor their gradients") {
  // The norms of keys decrease, so exponents rise by hundreds from the first key to the last, in every chunk.
  constexpr int64_t kTokens = 300;
  std::vector<double> sizes;
  for (int64_t n = 0; n < kTokens; ++n) sizes.push_back(40 - 0.13 * static_cast<double>(n));
  for (const int64_t heads : {1, 17}) {
    CAPTURE(heads);
    Inputs in = normal_inputs(1, heads, kTokens, kTokens, heads == 1 ? 8 : 2, DType::float64);
    in.k = in.k * tensor(sizes).reshape({kTokens, 1});
    const std::vector<Tensor> expected = forward_backward(in, {.causal = true, .form = PerformerForm::reference});
    const std::vector<Tensor> results = forward_backward(in, {.causal = true});
    for (size_t i = 0; i < results.size(); ++i) {
      CAPTURE(i);
      CHECK(relative_error(results[i], expected[i].to_vector<double>()) < 1e-10);
    }
    const Inputs narrow{in.q.to(DType::float32), in.k.to(DType::float32), in.v.to(DType::float32),
                        in.omega.to(DType::float32)};
    const std::vector<Tensor> rounded = forward_backward(narrow, {.causal = true});
    for (const Tensor& x : rounded) CHECK(all_finite(x));
    CHECK(relative_error(rounded[3], reference(narrow, sees(kTokens, kTokens, true))) < 1e-5);
  }
}

TEST_CASE("performer_attention drops whole queries and keys; the denominator keeps all") {
  const Inputs in = normal_inputs(2, 2, 150, 150, 6);
  const Tensor padding_mask = keep_all_but(2, 150, {{0, 2}, {1, 77}});
  for (const bool causal : {false, true}) {
    const auto results = [&](PerformerForm form) {
      Generator generator(9);
      std::vector<Tensor> all = forward_backward(
          in,
          {.causal = causal, .padding_mask = padding_mask, .form = form, .dropout = 0.25, .generator = &generator});
      CHECK(generator.state().draws == 2);
      return all;
    };
    const std::vector<Tensor> fused = results(PerformerForm::automatic);
    for (const PerformerForm form : {PerformerForm::composed, PerformerForm::reference}) {
      const std::vector<Tensor> other = results(form);
      for (size_t i = 0; i < other.size(); ++i) {
        CHECK(relative_error(other[i], fused[i].to_vector<double>()) < 1e-12);
      }
    }
    // With dropout, a row of weights is multiplied by its keys' dropout factors, or is 0.
    int64_t dropped = 0;
    for (const double size : sum(square(fused[3]), {3}).to_vector<double>()) dropped += size == 0 ? 1 : 0;
    CHECK(dropped > 600 * 0.15);
    CHECK(dropped < 600 * 0.35);
  }
}

TEST_CASE("Dropout leaves the expectation of performer_attention as it is") {
  const Inputs in = normal_inputs(1, 1, 4, 8, 3);
  Generator generator(10);
  Tensor total = zeros({1, 1, 4, 3}, DType::float64);
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    total = total + performer_attention(in.q, in.k, in.v, in.omega, {.dropout = 0.25, .generator = &generator});
  }
  CHECK(relative_error(total / kDraws, performer_attention(in.q, in.k, in.v, in.omega).to_vector<double>()) < 0.05);
}

TEST_CASE("performer_attention with many features is softmax attention") {
  const Inputs in = normal_inputs(1, 2, 40, 40, 8);
  const Tensor q = in.q * 0.5, k = in.k * 0.5, omega = projection(20000, 8);
  for (const bool causal : {false, true}) {
    const std::vector<double> expected = softmax_attention(q, k, in.v, {.causal = causal}).to_vector<double>();
    CHECK(relative_error(performer_attention(q, k, in.v, omega, {.causal = causal}), expected) < 0.02);
  }
}

TEST_CASE("performer_attention takes memory linear in the tokens, whatever the features") {
  constexpr int64_t kTokens = 4096, kWidth = 8;
  Inputs in = normal_inputs(1, 2, kTokens, kTokens, kWidth, DType::float32);
  in.omega = projection(128, kWidth, DType::float32);
  const WithThreads with(1);
  for (const bool causal : {false, true}) {
    release_cached_memory();
    reset_peak_memory();
    const int64_t live = memory_stats().live;
    forward_backward(in, {.causal = causal});
    CHECK(memory_stats().peak - live < 2 * kTokens * kWidth * 4 * 16);  // features of all tokens would be as much
  }
}

TEST_CASE("performer_attention notices features that are drawn between forward and backward") {
  Inputs in = normal_inputs(1, 1, 5, 5, 4);
  for (const PerformerForm form : {PerformerForm::automatic, PerformerForm::composed}) {
    in.q.set_requires_grad();
    const Tensor o = performer_attention(in.q, in.k, in.v, in.omega, {.form = form});
    in.omega.fill_(1);
    CHECK_THROWS_AS(backward(sum(o)), AutogradError);
  }
}

TEST_CASE("performer_attention says what is wrong") {
  const Inputs in = normal_inputs(2, 3, 4, 5, 6);
  const auto& [q, k, v, omega] = in;
  CHECK_THROWS_WITH_AS(
      performer_attention(q.reshape({6, 4, 6}), k, v, omega, {}, {"a.cpp", 1}),
      "performer_attention: q[6, 4, 6] has rank 3; [batch, heads, tokens, width] is needed (a.cpp:1)", ShapeError);
  CHECK_THROWS_WITH_AS(
      performer_attention(q, k, v, projection(7, 5), {}, {"a.cpp", 1}),
      "performer_attention: omega[7, 5] does not fit q[2, 3, 4, 6]: it must be [features, 6] with a feature or more "
      "(a.cpp:1)",
      ShapeError);
  CHECK_THROWS_AS(performer_attention(q, k, v, omega.narrow(0, 0, 0)), ShapeError);
  CHECK_THROWS_WITH_AS(performer_attention(q, k, v, omega.to(DType::float32), {}, {"a.cpp", 1}),
                       "performer_attention: omega is float32; beside q of float64 it must be float64 (a.cpp:1)",
                       DTypeError);
  for (const PerformerForm form : kForms) {
    CHECK_THROWS_AS(performer_attention(q, k.to(DType::float32), v, omega, {.form = form}), DTypeError);
    CHECK_THROWS_AS(performer_attention(q, k, v.to(DType::float32), omega, {.form = form}), DTypeError);
  }
  CHECK_THROWS_AS(performer_attention(q.to(DType::int64), k.to(DType::int64), v.to(DType::int64), omega), DTypeError);
  CHECK_THROWS_AS(performer_attention(q, k, v, omega, {.padding_mask = ones({2, 5})}), DTypeError);
  CHECK_THROWS_AS(performer_attention(q, k, v, omega, {.padding_mask = ones({2, 4}, DType::boolean)}), ShapeError);
  CHECK_THROWS_WITH_AS(performer_attention(q, k, v, omega, {.dropout = 1.5}, {"a.cpp", 1}),
                       "performer_attention: dropout is 1.5; it must be in [0, 1] (a.cpp:1)", ValueError);
  Generator rng(1);
  CHECK_THROWS_WITH_AS(performer_attention(q, k, v, omega, {.dropout = 1, .generator = &rng}, {"a.cpp", 1}),
                       "performer_attention: dropout is 1; it must be below 1 (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(performer_attention(q, k, v, omega, {.dropout = 0.1}, {"a.cpp", 1}),
                       "performer_attention: dropout 0.1 needs a generator; set options.generator (a.cpp:1)",
                       ValueError);
  CHECK_THROWS_WITH_AS(
      performer_attention_weights(q, k.narrow(3, 0, 5), omega),
      doctest::Contains("performer_attention_weights: q[2, 3, 4, 6] and k[2, 3, 5, 5] differ in width"), ShapeError);
}
