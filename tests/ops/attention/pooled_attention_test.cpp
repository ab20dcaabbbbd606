#include <linnet/ops/attention/pooled_attention.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/memory_stats.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"

/// Compares attention to pools with its formula, written as loops. Also tests properties of all attentions.

using namespace linnet;
using namespace linnet::test;

namespace {

using Kind = TokenPooling::Kind;

constexpr Kind kKinds[] = {Kind::mean, Kind::max, Kind::convolution};

struct Inputs {
  Tensor q, k, v, of_keys, of_values;  // the last two: the weights of convolutions

  std::vector<Tensor*> all() { return {&q, &k, &v, &of_keys, &of_values}; }
};

Inputs normal_inputs(int64_t b, int64_t h, int64_t n, int64_t d, int64_t kernel, DType dtype = DType::float64) {
  return {normal({b, h, n, d}, 1, dtype), normal({b, h, n, d}, 2, dtype), normal({b, h, n, d}, 3, dtype),
          normal({kernel, d}, 4, dtype), normal({kernel, d}, 5, dtype)};
}

PooledAttentionOptions with_weights(PooledAttentionOptions options, const Inputs& in) {
  options.keys.weight = in.of_keys;
  options.values.weight = in.of_values;
  return options;
}

Tensor attend(const Inputs& in, const PooledAttentionOptions& options) {
  return pooled_attention(in.q, in.k, in.v, with_weights(options, in));
}

/// Gradients of all inputs, 0 for unused ones, and the output.
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

std::vector<Tensor> forward_backward(const Inputs& in, const PooledAttentionOptions& options) {
  return forward_backward(in, [&](const Inputs& at) { return attend(at, options); });
}

/// The pools of x by their definition, token by token, and whether each pool has a token, [B, P].
Tensor pools_by_loops(const Tensor& x, const TokenPooling& pooling, const std::vector<bool>& kept,
                      std::vector<bool>* some) {
  const int64_t batch = x.size(0), heads = x.size(1), tokens = x.size(2), width = x.size(3);
  const int64_t pools = (tokens + pooling.stride - 1) / pooling.stride;
  const std::vector<double> values = x.to_vector<double>();
  const std::vector<double> weight =
      pooling.weight.defined() ? pooling.weight.to_vector<double>() : std::vector<double>();
  const auto value = [&](int64_t b, int64_t h, int64_t i, int64_t d) {
    return values[static_cast<size_t>(((b * heads + h) * tokens + i) * width + d)];
  };
  const auto is_kept = [&](int64_t b, int64_t i) { return kept[static_cast<size_t>(b * tokens + i)]; };
  std::vector<double> out;
  some->clear();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t p = 0; p < pools; ++p) {
        int64_t centre = -1;  // the token nearest to it, the earlier of two
        for (int64_t i = p * pooling.stride; i < std::min(p * pooling.stride + pooling.kernel, tokens); ++i) {
          const auto distance = [&](int64_t token) {
            return std::abs(2 * (token - p * pooling.stride) - (pooling.kernel - 1));
          };
          if (is_kept(b, i) && (centre < 0 || distance(i) < distance(centre))) centre = i;
        }
        std::vector<double> factors;
        double total = 0;
        for (int64_t t = 0; t < pooling.kernel; ++t) {
          const int64_t i = p * pooling.stride + t;
          double factor = 0;
          if (i < tokens && is_kept(b, i)) {
            double score = 0;
            for (int64_t d = 0; d < width && pooling.kind == Kind::convolution; ++d) {
              score += weight[static_cast<size_t>(t * width + d)] * value(b, h, centre, d);
            }
            factor = std::exp(score);
          }
          factors.push_back(factor);
          total += factor;
        }
        if (h == 0) some->push_back(total > 0);
        for (int64_t d = 0; d < width; ++d) {
          double sum = 0, most = -std::numeric_limits<double>::infinity();
          for (int64_t t = 0; t < pooling.kernel; ++t) {
            if (factors[static_cast<size_t>(t)] == 0) continue;
            const double of_token = value(b, h, p * pooling.stride + t, d);
            sum += factors[static_cast<size_t>(t)] / total * of_token;
            most = std::max(most, of_token);
          }
          out.push_back(total == 0 ? 0 : pooling.kind == Kind::max ? most : sum);
        }
      }
    }
  }
  return tensor(out, {batch, heads, pools, width});
}

std::vector<double> by_loops(const Inputs& in, const PooledAttentionOptions& given) {
  const PooledAttentionOptions options = with_weights(given, in);
  const int64_t batch = in.q.size(0), tokens = in.q.size(2);
  const std::vector<bool> kept = options.padding_mask.defined()
                                     ? options.padding_mask.to_vector<bool>()
                                     : std::vector<bool>(static_cast<size_t>(batch * tokens), true);
  std::vector<bool> some;
  const Tensor k = pools_by_loops(in.k, options.keys, kept, &some),
               v = pools_by_loops(in.v, options.values, kept, &some);
  const auto s = scores(in.q, k, 1 / std::sqrt(static_cast<double>(in.q.size(3))));
  const auto seen = [&](int64_t b, int64_t i, int64_t p) {
    const double centre =
        static_cast<double>(p * options.keys.stride) + (static_cast<double>(options.keys.kernel) - 1) / 2;
    const bool near = std::abs(static_cast<double>(i) - centre) <= static_cast<double>(options.window) / 2;
    const bool past = !options.causal || p * options.keys.stride + options.keys.kernel - 1 <= i;
    return near && past && some[static_cast<size_t>(b * k.size(2) + p)];
  };
  return weighted_means([&](int64_t b, int64_t h, int64_t i, int64_t p) { return std::exp(s(b, h, i, p)); }, tokens,
                        v, seen);
}

/// Cases of tokens, window, kernel and stride.
struct Case {
  int64_t tokens, window, kernel, stride;
};

Tensor some_padding(int64_t n) {
  std::vector<std::pair<int64_t, int64_t>> places{{0, 0}, {0, n - 1}};
  for (int64_t i = 3; i < n; i += 5) places.emplace_back(1, i);
  for (int64_t i = n / 2; i < n; ++i) places.emplace_back(1, i);
  return keep_all_but(2, n, places);
}

/// Calls `f(kind, options)` with each kind, causal or not, with padding or without.
template <class F>
void for_each_option(const Case& c, const F& f) {
  CAPTURE(c.tokens);
  CAPTURE(c.window);
  CAPTURE(c.kernel);
  CAPTURE(c.stride);
  for (const Kind kind : kKinds) {
    for (const bool causal : {false, true}) {
      for (const bool padded : {false, true}) {
        CAPTURE(static_cast<int>(kind));
        CAPTURE(causal);
        CAPTURE(padded);
        const TokenPooling pooling{.kind = kind, .kernel = c.kernel, .stride = c.stride};
        PooledAttentionOptions options{.keys = pooling, .values = pooling, .window = c.window, .causal = causal};
        if (padded) options.padding_mask = some_padding(c.tokens);
        f(kind, options);
      }
    }
  }
}

const std::vector<Case> kCases{{1, 4, 5, 4},  {7, 6, 2, 3},    {30, 12, 5, 4},   {64, 9, 3, 1},
                               {65, 0, 4, 4}, {130, 64, 5, 4}, {300, 512, 5, 4}, {41, 20, 7, 2}};

}  // namespace

TEST_CASE("pooled_attention is the formula for any pools and windows") {
  for (const Case& c : kCases) {
    for_each_option(c, [&](Kind, const PooledAttentionOptions& options) {
      const Inputs in = normal_inputs(2, 2, c.tokens, 3, c.kernel);
      CHECK(relative_error(attend(in, options), by_loops(in, options)) < 1e-13);
    });
  }
}

TEST_CASE("pooled_attention_weights times the values are what it computes, with the same gradients, but for max") {
  for (const Case& c : kCases) {
    for_each_option(c, [&](Kind kind, const PooledAttentionOptions& options) {
      if (kind == Kind::max) return;
      const Inputs in = normal_inputs(2, 2, c.tokens, 3, c.kernel);
      const std::vector<Tensor> results = forward_backward(in, options);
      const std::vector<Tensor> expected = forward_backward(in, [&](const Inputs& at) {
        return matmul(pooled_attention_weights(at.q, at.k, at.v, with_weights(options, at)), at.v);
      });
      for (size_t i = 0; i < results.size(); ++i) {
        CAPTURE(i);
        CHECK(largest_difference(results[i], expected[i]) < 1e-12);
      }
    });
  }
}

TEST_CASE("pooled_attention with pools of one token and a window over everything is softmax attention") {
  const Inputs in = normal_inputs(2, 2, 150, 5, 1);
  for (const Kind kind : kKinds) {
    for (const bool causal : {false, true}) {
      const TokenPooling pooling{.kind = kind, .kernel = 1, .stride = 1};
      const Tensor o = attend(in, {.keys = pooling, .values = pooling, .window = 300, .causal = causal});
      CHECK(largest_difference(o, softmax_attention(in.q, in.k, in.v, {.causal = causal})) < 1e-14);
    }
  }
}

TEST_CASE("Causal pooled_attention: the future changes no bit of the past, and neither does more of it") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const Kind kind : kKinds) {
    const Inputs in = normal_inputs(1, 2, 150, 8, 5, DType::float32);
    const TokenPooling pooling{.kind = kind};
    const PooledAttentionOptions options{.keys = pooling, .values = pooling, .window = 60, .causal = true};
    const Tensor expected = attend(in, options);
    for (const int64_t t : {1, 4, 5, 64, 149}) {
      CAPTURE(t);
      for (const double value : {3.0, nan, infinity}) {
        Inputs changed = in;
        for (Tensor* x : {&changed.q, &changed.k, &changed.v}) *x = with_tokens(*x, 0, t, 150, value);
        CHECK(same_bits(attend(changed, options).narrow(2, 0, t), expected.narrow(2, 0, t)));
      }
      Inputs cut = in;
      for (Tensor* x : {&cut.q, &cut.k, &cut.v}) *x = x->narrow(2, 0, t);
      CHECK(largest_difference(attend(cut, options), expected.narrow(2, 0, t)) < 1e-6);
    }
  }
}

TEST_CASE("pooled_attention leaves out padding, whatever it holds; a row without keys is 0 and has no gradient") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for_each_option({90, 12, 5, 4}, [&](Kind, PooledAttentionOptions options) {
    const Inputs in = normal_inputs(2, 2, 90, 3, 5);
    std::vector<std::pair<int64_t, int64_t>> places{{0, 0}, {0, 30}, {0, 31}};
    for (int64_t i = 0; i < 90; ++i) places.emplace_back(1, i);
    options.padding_mask = keep_all_but(2, 90, places);
    const std::vector<Tensor> expected = forward_backward(in, options);
    for (const size_t i : {0, 1, 2, 5}) {
      const Tensor second = expected[i].narrow(0, 1, 1);
      CHECK(sum(second * second).item<double>() == 0);
    }
    for (const double value : {1e30, nan, infinity}) {
      CAPTURE(value);
      Inputs changed = in;
      for (Tensor* x : {&changed.k, &changed.v}) {
        *x = with_tokens(with_tokens(with_tokens(*x, 0, 30, 32, value), 0, 0, 1, value), 1, 0, 90, value);
      }
      check_same_bits(forward_backward(changed, options), expected);
    }
  });
}

TEST_CASE("pooled_attention and its gradients are the same for any number of threads") {
  const Inputs in = normal_inputs(1, 2, 1300, 16, 5, DType::float32);
  for (const bool causal : {false, true}) {
    for (const double dropout : {0.0, 0.1}) {
      Generator generator(11);
      check_threads_change_no_bit([&] {
        generator.set_state({11, 0});
        return forward_backward(in, {.window = 300, .causal = causal, .dropout = dropout, .generator = &generator});
      });
    }
  }
}

TEST_CASE("Dropout leaves the expectation of pooled_attention as it is") {
  const Inputs in = normal_inputs(1, 1, 12, 3, 5);
  Generator generator(10);
  Tensor total = zeros({1, 1, 12, 3}, DType::float64);
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    total = total + attend(in, {.window = 20, .dropout = 0.25, .generator = &generator});
  }
  CHECK(relative_error(total / kDraws, attend(in, {.window = 20}).to_vector<double>()) < 0.05);
}

TEST_CASE("pooled_attention takes memory linear in the tokens") {
  const Inputs in = normal_inputs(1, 4, 8192, 8, 5, DType::float32);
  const WithThreads with(1);
  release_cached_memory();
  reset_peak_memory();
  const int64_t live = memory_stats().live;
  forward_backward(in, {.window = 64});
  CHECK(memory_stats().peak - live < 20 * int64_t{4} * 8192 * 8 * 4);  // 20 tensors like q
}

TEST_CASE("pooled_attention: any window or stride beyond the tokens is one over all tokens") {
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  const Inputs in = normal_inputs(2, 3, 17, 4, 5);
  for (const bool causal : {false, true}) {
    check_same_bits(forward_backward(in, {.window = kLargest, .causal = causal}),
                    forward_backward(in, {.window = 1000, .causal = causal}));
  }
  const TokenPooling far{.stride = kLargest}, near{.stride = 17};
  check_same_bits(forward_backward(in, {.keys = far, .values = far}),
                  forward_backward(in, {.keys = near, .values = near}));
}

TEST_CASE("pooled_attention_weights of no tokens stay on the tape") {
  const Inputs in = normal_inputs(2, 3, 0, 4, 5);
  Tensor q = in.q.detach();
  q.set_requires_grad();
  const Tensor weights = pooled_attention_weights(q, in.k, in.v, with_weights({}, in));
  CHECK(weights.shape() == Shape{2, 3, 0, 0});
  REQUIRE(weights.requires_grad());
  CHECK(grad({weights.sum()}, {q})[0].shape() == q.shape());
}

TEST_CASE("pooled_attention says what is wrong") {
  const Inputs in = normal_inputs(2, 3, 6, 4, 5);
  const auto refused = [&](const PooledAttentionOptions& options, const char* because) {
    CHECK_THROWS_WITH_AS(attend(in, options), doctest::Contains(because), ValueError);
  };
  refused({.window = -2}, "pooled_attention: window is -2; it must not be negative");
  refused({.keys = {.kernel = 0}, .values = {.kernel = 0}},
          "a pool of 0 tokens with a stride of 4; both must be at least 1");
  refused({.keys = {.stride = 0}, .values = {.stride = 0}}, "a pool of 5 tokens with a stride of 0");
  refused({.keys = {.stride = 2}}, "keys are pooled with kernel 5 and stride 2, values with 5 and 4; use the same");
  refused({.dropout = 2}, "dropout is 2; it must be in [0, 1]");
  refused({.dropout = 0.5}, "needs a generator");
  CHECK_THROWS_WITH_AS(pooled_attention(in.q, in.k, in.v), doctest::Contains("pooling by convolution needs a weight"),
                       ValueError);
  CHECK_THROWS_WITH_AS(
      attend(in, {.keys = {.kernel = 3}, .values = {.kernel = 3}}),
      doctest::Contains("the pooling's weight[5, 4] must be [3, 4] for a kernel of 3 and heads of 4"), ShapeError);
  CHECK_THROWS_AS(attend(in, {.padding_mask = ones({2, 5}, DType::boolean)}), ShapeError);
  CHECK_THROWS_AS(pool_tokens(in.q.reshape({6, 6, 4}), {.kind = Kind::mean}), ShapeError);
}
