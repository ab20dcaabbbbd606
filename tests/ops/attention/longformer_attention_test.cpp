#include <linnet/ops/attention/longformer_attention.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <limits>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/core/memory_stats.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/near.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

/// Compares Longformer's attention with its N×N formula and Hugging Face's layer. Also tests properties of all
/// attentions.

using namespace linnet;
using namespace linnet::test;
using test::kInfinity;
using test::kNan;

namespace {

/// q, k and v, and the separate ones for the rows of global tokens.
struct Inputs {
  Tensor q, k, v, q_global, k_global, v_global;

  std::vector<Tensor*> all() { return {&q, &k, &v, &q_global, &k_global, &v_global}; }
};

Inputs normal_inputs(int64_t b, int64_t h, int64_t n, int64_t d, int64_t globals, DType dtype = DType::float64) {
  const auto draw = [&](int64_t tokens, uint64_t seed) { return normal({b, h, tokens, d}, seed, dtype); };
  return {draw(n, 1), draw(n, 2), draw(n, 3), draw(globals, 4), draw(n, 5), draw(n, 6)};
}

Tensor attend(const Inputs& in, const LongformerAttentionOptions& options) {
  return longformer_attention(in.q, in.k, in.v, in.q_global, in.k_global, in.v_global, options);
}

/// The formula: the weights times the values. Rows of global tokens are given by `is_global` [B, 1, N, 1].
Tensor by_weights(const Inputs& in, const LongformerAttentionOptions& options, const Tensor& is_global) {
  const Tensor weights = longformer_attention_weights(in.q, in.k, in.q_global, in.k_global, options);
  return where(is_global, matmul(weights, in.v_global), matmul(weights, in.v));
}

/// The gradients of all inputs under a cotangent drawn from seed 7, and the output.
template <class F>
std::vector<Tensor> forward_backward(Inputs in, const F& attention) {
  std::vector<Tensor> inputs;
  for (Tensor* x : in.all()) {
    *x = x->detach();
    x->set_requires_grad();
    inputs.push_back(*x);
  }
  const Tensor o = attention(in);
  std::vector<Tensor> results =
      grad({o}, inputs, {.grad_outputs = {normal(o.shape(), 7, o.dtype())}, .allow_unused = true});
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined()) results[i] = zeros_like(inputs[i].detach());
  }
  results.push_back(o.detach());
  return results;
}

std::vector<Tensor> forward_backward(const Inputs& in, const LongformerAttentionOptions& options) {
  return forward_backward(in, [&](const Inputs& at) { return attend(at, options); });
}

/// Bool [B, N] with true at these [sequence, token] pairs.
Tensor tokens_at(int64_t b, int64_t n, const std::vector<std::pair<int64_t, int64_t>>& places) {
  return logical_not(keep_all_but(b, n, places));
}

/// A case of the comparison with the formula.
struct Case {
  int64_t tokens, window;
  std::vector<int64_t> dilation;
  int64_t globals;
};

void check_formula(const Case& c, const LongformerAttentionOptions& options, const Tensor& is_global) {
  CAPTURE(c.tokens);
  CAPTURE(c.window);
  CAPTURE(c.globals);
  CAPTURE(c.dilation.back());
  CAPTURE(options.causal);
  CAPTURE(options.padding_mask.defined());
  const Inputs in = normal_inputs(2, 2, c.tokens, 3, c.globals);
  const std::vector<Tensor> results = forward_backward(in, options);
  const std::vector<Tensor> expected =
      forward_backward(in, [&](const Inputs& at) { return by_weights(at, options, is_global); });
  for (size_t i = 0; i < results.size(); ++i) {
    CAPTURE(i);
    REQUIRE(results[i].shape() == expected[i].shape());
    if (results[i].numel() > 0) CHECK(largest_difference(results[i], expected[i]) < 1e-12);
  }
}

}  // namespace

TEST_CASE("longformer_attention is the formula, with gradients, for any window, dilation and global tokens") {
  const std::vector<Case> cases{{1, 0, {1}, 1},   {1, 4, {2}, 0},     {7, 2, {1}, 0},     {7, 4, {1}, 2},
                                {7, 2, {1}, 7},   {64, 8, {1}, 1},    {65, 64, {1}, 1},   {130, 16, {1}, 3},
                                {200, 2, {1}, 0}, {200, 256, {1}, 1}, {333, 100, {1}, 1}, {70, 8, {2}, 1},
                                {71, 4, {3}, 2},  {70, 6, {1, 4}, 2}, {70, 6, {3, 3}, 0}, {9, 4, {20}, 1}};
  for (const Case& c : cases) {
    const Tensor is_global = lt(arange(c.tokens), c.globals).reshape({1, 1, c.tokens, 1});
    for (const bool causal : {false, true}) {
      for (const bool padded : {false, true}) {
        LongformerAttentionOptions options{
            .window = c.window, .dilation = c.dilation, .global_tokens = c.globals, .causal = causal};
        if (padded) {
          std::vector<std::pair<int64_t, int64_t>> places{{0, 0}, {1, c.tokens - 1}};
          for (int64_t i = 3; i < c.tokens; i += 5) places.emplace_back(1, i);
          for (int64_t i = c.tokens / 2; i < c.tokens; ++i) places.emplace_back(0, i);
          options.padding_mask = keep_all_but(2, c.tokens, places);
        }
        check_formula(c, options, is_global);
      }
    }
  }
}

TEST_CASE(
    "longformer_attention is the formula where a mask names the global tokens, another number in each sequence") {
  for (const int64_t n : {20, 150}) {
    const std::vector<std::pair<int64_t, int64_t>> places{{0, 0}, {0, 9}, {0, 10}, {0, n - 1}, {1, 6}};
    const Tensor global = tokens_at(2, n, places);
    for (const std::vector<int64_t>& dilation : {std::vector<int64_t>{1}, {3}, {2, 1}}) {
      for (const bool causal : {false, true}) {
        for (const bool padded : {false, true}) {
          LongformerAttentionOptions options{
              .window = 6, .dilation = dilation, .global_mask = global, .causal = causal};
          if (padded) options.padding_mask = keep_all_but(2, n, {{0, 9}, {0, 12}, {1, 0}, {1, 5}, {1, 13}});
          check_formula({n, 6, dilation, 4}, options, global.unsqueeze(1).unsqueeze(-1));
        }
      }
    }
  }
}

TEST_CASE("longformer_attention_weights are the softmax over the tokens that the paper lets a token see") {
  const Inputs in = normal_inputs(1, 1, 12, 3, 1);
  const double scale = 1 / std::sqrt(3.0);
  const auto s = scores(in.q, in.k, scale);
  for (const bool causal : {false, true}) {
    const auto seen = [&](int64_t, int64_t i, int64_t j) {
      const bool near =
          causal ? i - j >= 0 && i - j <= 8 && (i - j) % 2 == 0 : std::abs(i - j) <= 4 && (i - j) % 2 == 0;
      return near || j == 0;
    };
    const Tensor weights = longformer_attention_weights(in.q, in.k, in.q_global, in.k_global,
                                                        {.window = 4, .dilation = {2}, .causal = causal});
    const std::vector<double> expected =
        weighted_means([&](int64_t b, int64_t h, int64_t i, int64_t j) { return std::exp(s(b, h, i, j)); }, 12,
                       eye(12, 12, DType::float64).reshape({1, 1, 12, 12}), seen);
    const std::vector<double> actual = weights.to_vector<double>();
    for (size_t i = 12; i < actual.size(); ++i) CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-12));
    // Row 0 is that of the global token.
    const Tensor row =
        softmax_attention_weights(in.q_global, causal ? in.k_global.narrow(2, 0, 1) : in.k_global).reshape({-1});
    CHECK(largest_difference(weights.reshape({-1}).narrow(0, 0, row.size(0)), row) < 1e-14);
  }
}

TEST_CASE("longformer_attention is what Hugging Face's layer computes on tokens that are no padding") {
  const std::filesystem::path path =
      std::filesystem::path(LINNET_TEST_DATA) / "goldens/mechanisms/longformer.safetensors";
  const TensorMap file = read_safetensors(path).tensors;
  Tensor x = file.at("test.input").clone().set_requires_grad();
  std::vector<std::string> names;
  std::vector<Tensor> inputs{x};
  TensorMap maps;
  for (const char* name : {"query", "key", "value", "query_global", "key_global", "value_global"}) {
    for (const char* part : {".weight", ".bias"}) {
      names.push_back(std::string(name) + part);
      inputs.push_back(maps[names.back()] = file.at(names.back()).clone().set_requires_grad());
    }
  }
  const Tensor padding_mask = file.at("test.keep"), global = file.at("test.global");
  const auto heads = [&](const std::string& name) {
    return linear(x, maps.at(name + ".weight"), maps.at(name + ".bias")).reshape({2, 32, 2, 8}).transpose(1, 2);
  };
  // The first sequence has the global tokens 0 and 13, the second only token 0.
  const Tensor at = tensor({0, 13, 0, 0}, DType::int64).reshape({2, 1, 2, 1}).expand({2, 2, 2, 8});
  const Tensor o = longformer_attention(
      heads("query"), heads("key"), heads("value"), gather(heads("query_global"), 2, at), heads("key_global"),
      heads("value_global"), {.window = 8, .global_mask = global, .padding_mask = padding_mask});
  const Tensor kept = padding_mask.unsqueeze(-1).to(DType::float64);
  const Tensor output = o.transpose(1, 2).reshape({2, 32, 16}) * kept;
  CHECK(largest_difference(output, file.at("test.output") * kept) < 1e-6);
  const std::vector<Tensor> gradients = grad({output}, inputs, {.grad_outputs = {file.at("test.cotangent")}});
  // Hugging Face's gradients are NaN if a sequence has fewer global tokens than another: in the second sequence's
  // input, and in the maps of global values.
  const auto error = [&](const Tensor& actual, const Tensor& expected) {
    return relative_error(actual, expected.contiguous().to_vector<double>());
  };
  CHECK(error(gradients[0].narrow(0, 0, 1), file.at("grad.input").narrow(0, 0, 1)) < 1e-6);
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].starts_with("value_global") || names[i] == "key.bias" || names[i] == "key_global.bias") continue;
    CAPTURE(names[i]);
    CHECK(error(gradients[i + 1], file.at("grad." + names[i])) < 1e-6);
  }
  for (size_t i = 0; i < names.size(); ++i) {  // the exact gradient is 0: softmax does not depend on it
    if (names[i].ends_with("key.bias") || names[i].ends_with("key_global.bias")) {
      CHECK(max(abs(gradients[i + 1])).item<double>() < 1e-12);
    }
  }
}

TEST_CASE("longformer_attention with a window over everything and no global tokens is softmax attention") {
  const Inputs in = normal_inputs(2, 2, 150, 5, 0);
  for (const bool causal : {false, true}) {
    const Tensor o = attend(in, {.window = 300, .global_tokens = 0, .causal = causal});
    CHECK(largest_difference(o, softmax_attention(in.q, in.k, in.v, {.causal = causal})) < 1e-14);
  }
}

TEST_CASE("longformer_attention: any window or dilation beyond the tokens is one over all tokens") {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  const Inputs in = normal_inputs(2, 2, 9, 5, 1);
  const auto weights = [&](const LongformerAttentionOptions& options) {
    return longformer_attention_weights(in.q, in.k, in.q_global, in.k_global, options);
  };
  for (const bool causal : {false, true}) {
    for (const std::vector<int64_t>& dilation : {std::vector<int64_t>{1}, {2, 3}}) {
      const LongformerAttentionOptions wide{.window = kLargest - 1, .dilation = dilation, .causal = causal},
          all{.window = 18, .dilation = dilation, .causal = causal};
      CHECK(same_bits(attend(in, wide), attend(in, all)));
      CHECK(same_bits(weights(wide), weights(all)));
    }
    const LongformerAttentionOptions far{.window = 4, .dilation = {kLargest}, .causal = causal},
        alone{.window = 4, .dilation = {9}, .causal = causal};
    CHECK(same_bits(attend(in, far), attend(in, alone)));
    CHECK(same_bits(weights(far), weights(alone)));
  }
}

TEST_CASE("longformer_attention in float32 is as exact as softmax attention") {
  const Inputs in = normal_inputs(1, 2, 300, 32, 1, DType::float32);
  Inputs exact = in;
  for (Tensor* x : exact.all()) *x = x->to(DType::float64);
  for (const bool causal : {false, true}) {
    const LongformerAttentionOptions options{.window = 64, .causal = causal};
    const std::vector<Tensor> results = forward_backward(in, options);
    const std::vector<Tensor> expected = forward_backward(exact, options);
    CHECK(results.back().dtype() == DType::float32);
    for (size_t i = 0; i < results.size(); ++i) {
      CAPTURE(i);
      CHECK(largest_difference(results[i].to(DType::float64), expected[i]) < 1e-5);
    }
  }
}

TEST_CASE("longformer_attention: what a token does not see changes no bit") {
  const Inputs in = normal_inputs(1, 2, 200, 8, 1, DType::float32);
  for (const bool causal : {false, true}) {
    const LongformerAttentionOptions options{.window = 16, .causal = causal};
    const Tensor expected = attend(in, options);
    for (const double value : {3.0, kNan, kInfinity}) {
      CAPTURE(causal);
      CAPTURE(value);
      Inputs changed = in;
      for (Tensor* x : {&changed.q, &changed.k, &changed.v}) *x = with_tokens(*x, 0, 120, 150, value);
      const Tensor o = attend(changed, options);
      // Rows from 8 before and, when causal, 0 before to 8 or 16 after see the changed tokens.
      const int64_t first = causal ? 120 : 112, end = causal ? 166 : 158;
      CHECK(same_bits(o.narrow(2, 0, first), expected.narrow(2, 0, first)));
      CHECK(same_bits(o.narrow(2, end, 200 - end), expected.narrow(2, end, 200 - end)));
      CHECK_FALSE(same_bits(o.narrow(2, end - 1, 1), expected.narrow(2, end - 1, 1)));
    }
  }
}

TEST_CASE("longformer_attention leaves out padding, whatever it holds; a row without keys is 0 and has no gradient") {
  const Inputs in = normal_inputs(2, 2, 90, 3, 2);
  std::vector<std::pair<int64_t, int64_t>> places{{0, 0}, {0, 30}, {0, 31}};
  for (int64_t i = 0; i < 90; ++i) places.emplace_back(1, i);
  const Tensor padding_mask = keep_all_but(2, 90, places);
  for (const bool causal : {false, true}) {
    for (const int64_t dilation : {1, 2}) {
      CAPTURE(causal);
      CAPTURE(dilation);
      const LongformerAttentionOptions options{
          .window = 4, .dilation = {dilation}, .global_tokens = 2, .causal = causal, .padding_mask = padding_mask};
      const std::vector<Tensor> expected = forward_backward(in, options);
      for (const Tensor& x : expected) CHECK(sum(x.narrow(0, 1, 1) * x.narrow(0, 1, 1)).item<double>() == 0);
      for (const double value : {1e30, kNan, kInfinity}) {
        CAPTURE(value);
        Inputs changed = in;
        for (Tensor* x : {&changed.k, &changed.v, &changed.k_global, &changed.v_global}) {
          *x = with_tokens(with_tokens(with_tokens(*x, 0, 30, 32, value), 0, 0, 1, value), 1, 0, 90, value);
        }
        check_same_bits(forward_backward(changed, options), expected);
      }
    }
  }
}

TEST_CASE("longformer_attention: a tensor that is there twice gets the sum of its gradients") {
  const Tensor first_tokens = lt(arange(40), 33).unsqueeze(0).expand({2, 40}).contiguous();
  for (const bool same_values : {false, true}) {
    for (const Tensor& padding_mask : {Tensor(), first_tokens}) {
      const LongformerAttentionOptions options{.window = 6, .global_tokens = 2, .padding_mask = padding_mask};
      Inputs in = normal_inputs(2, 3, 40, 4, 2);
      in.k_global = in.k;
      if (same_values) in.v_global = in.v;
      const std::vector<Tensor> apart = forward_backward(in, options);
      std::vector<Tensor> inputs{in.k, in.v}, expected{apart[1] + apart[4], apart[2]};
      if (same_values) {
        expected[1] = expected[1] + apart[5];
      } else {
        inputs.push_back(in.v_global);
        expected.push_back(apart[5]);
      }
      for (Tensor& x : inputs) x.set_requires_grad();
      const Tensor o = attend(in, options);
      const std::vector<Tensor> together = grad({o}, inputs, {.grad_outputs = {normal(o.shape(), 7, o.dtype())}});
      for (size_t i = 0; i < inputs.size(); ++i) {
        CHECK(relative_error(together[i], expected[i].to_vector<double>()) < 1e-14);
      }
    }
  }
}

TEST_CASE("longformer_attention and its gradients are the same for any number of threads") {
  const Inputs in = normal_inputs(1, 2, 1300, 16, 1, DType::float32);
  for (const bool causal : {false, true}) {
    for (const double dropout : {0.0, 0.1}) {
      Generator generator(11);
      check_threads_change_no_bit([&] {
        generator.set_state({11, 0});
        return forward_backward(in, {.window = 200, .causal = causal, .dropout = dropout, .generator = &generator});
      });
    }
  }
}

TEST_CASE("Dropout leaves the expectation of longformer_attention as it is") {
  const Inputs in = normal_inputs(1, 1, 12, 3, 1);
  Generator generator(10);
  Tensor total = zeros({1, 1, 12, 3}, DType::float64);
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    total = total + attend(in, {.window = 4, .dropout = 0.25, .generator = &generator});
  }
  CHECK(relative_error(total / kDraws, attend(in, {.window = 4}).to_vector<double>()) < 0.05);
}

TEST_CASE("longformer_attention takes memory linear in the tokens") {
  const Inputs in = normal_inputs(1, 4, 8192, 8, 1, DType::float32);
  const WithThreads with(1);
  for (const bool causal : {false, true}) {
    release_cached_memory();
    reset_peak_memory();
    const int64_t live = memory_stats().live;
    forward_backward(in, {.window = 64, .causal = causal});
    CHECK(memory_stats().peak - live <
          14 * int64_t{4} * 8192 * 8 * 4);  // 14 tensors like q, of which 7 are gradients
  }
}

TEST_CASE("longformer_attention says what is wrong") {
  const Inputs in = normal_inputs(2, 3, 6, 4, 1);
  const auto refused = [&](const LongformerAttentionOptions& options, const char* because) {
    CHECK_THROWS_WITH_AS(attend(in, options), doctest::Contains(because), ValueError);
  };
  refused({.window = 5}, "longformer_attention: window is 5; it must be even and not negative");
  refused({.window = -2}, "window is -2; it must be even and not negative");
  refused({.dilation = {0}}, "dilation is 0; it must be at least 1");
  refused({.dilation = {1, 2}}, "there are 2 dilations for 3 heads; give one for all heads, or one for each");
  refused({.global_tokens = -1}, "global_tokens is -1; it must not be negative");
  refused({.dropout = 2}, "dropout is 2; it must be in [0, 1]");
  refused({.dropout = 0.5}, "needs a generator");
  refused({.scale = kNan}, "scale is nan; it must be finite");
  CHECK_THROWS_WITH_AS(attend(in, {.global_tokens = 2}),
                       doctest::Contains("q_global[2, 3, 1, 4] does not fit q[2, 3, 6, 4]: it must be [2, 3, 2, 4]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(longformer_attention(in.q, in.k, in.v, {}, {}, {}),
                       doctest::Contains("q_global is undefined, but there are 1 global tokens"), ValueError);
  CHECK_THROWS_WITH_AS(attend(in, {.global_mask = ones({2, 6})}),
                       doctest::Contains("global_mask is float32; it must be bool, true where a token is global"),
                       DTypeError);
  CHECK_THROWS_AS(attend(in, {.global_mask = ones({2, 5}, DType::boolean)}), ShapeError);
  CHECK_THROWS_AS(attend(in, {.padding_mask = ones({2, 5}, DType::boolean)}), ShapeError);
  CHECK_THROWS_AS(longformer_attention(in.q, in.k.narrow(2, 0, 5), in.v, {}, {}, {}), ShapeError);
}
