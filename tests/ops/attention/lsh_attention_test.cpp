#include <linnet/ops/attention/lsh_attention.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <set>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/core/memory_stats.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"

/// Compares Reformer's attention with its rounds written as loops, with reformer-pytorch, and with exact attention.

using namespace linnet;
using namespace linnet::test;

namespace {

struct Inputs {
  Tensor q, v, buckets;
};

/// Random queries and values, with buckets from hashes of the queries.
Inputs normal_inputs(int64_t b, int64_t h, int64_t n, int64_t d, int64_t hashes, int64_t chunk,
                     DType dtype = DType::float64) {
  Inputs in{normal({b, h, n, d}, 1, dtype), normal({b, h, n, d}, 2, dtype), {}};
  Generator rng(3);
  in.buckets = lsh_buckets(in.q, lsh_rotations(h, d, hashes, lsh_bucket_count(n, chunk), rng, dtype));
  return in;
}

/// Gradients of q and v under a cotangent drawn from seed 4, and the output.
template <class F>
std::vector<Tensor> forward_backward(Inputs in, const F& attention) {
  for (Tensor* x : {&in.q, &in.v}) {
    *x = x->detach();
    x->set_requires_grad();
  }
  const Tensor o = attention(in);
  std::vector<Tensor> results = grad({o}, {in.q, in.v}, {.grad_outputs = {normal(o.shape(), 4, o.dtype())}});
  results.push_back(o.detach());
  return results;
}

std::vector<Tensor> forward_backward(const Inputs& in, const LshAttentionOptions& options) {
  return forward_backward(in, [&](const Inputs& at) { return lsh_attention(at.q, at.v, at.buckets, options); });
}

/// How often token i sees token j over the rounds, by the definition: [B, H, N, N].
std::vector<int64_t> times_seen(const Tensor& buckets, const LshAttentionOptions& options) {
  const int64_t batch = buckets.size(0), heads = buckets.size(1), rounds = buckets.size(2), tokens = buckets.size(3);
  const std::vector<int64_t> bucket_of = buckets.to_vector<int64_t>();
  const std::vector<bool> kept = options.padding_mask.defined()
                                     ? options.padding_mask.to_vector<bool>()
                                     : std::vector<bool>(static_cast<size_t>(batch * tokens), true);
  std::vector<int64_t> seen(static_cast<size_t>(batch * heads * tokens * tokens));
  for (int64_t head = 0; head < batch * heads; ++head) {
    const auto is_kept = [&](int64_t i) { return kept[static_cast<size_t>(head / heads * tokens + i)]; };
    for (int64_t r = 0; r < rounds; ++r) {
      const auto bucket = [&](int64_t i) {
        return is_kept(i) ? bucket_of[static_cast<size_t>((head * rounds + r) * tokens + i)] : 1000000;
      };
      std::vector<int64_t> order;
      for (int64_t i = 0; i < tokens; ++i) order.push_back(i);
      std::ranges::sort(order, {}, [&](int64_t i) { return std::pair(bucket(i), i); });
      for (int64_t a = 0; a < tokens; ++a) {
        for (int64_t b = 0; b < tokens; ++b) {
          const int64_t i = order[static_cast<size_t>(a)], j = order[static_cast<size_t>(b)];
          const int64_t back = a / options.chunk - b / options.chunk;
          if (bucket(i) != bucket(j) || back < 0 || back > 1 || !is_kept(i) || (options.causal && j > i)) continue;
          ++seen[static_cast<size_t>((head * tokens + i) * tokens + j)];
        }
      }
    }
  }
  return seen;
}

/// The paper's form: a softmax in each round with ln c_ij subtracted, then the rounds weighed by their sums. As that
/// is one softmax over all rounds, weights are times_seen / c_ij · e^s.
Tensor by_loops(const Inputs& in, const LshAttentionOptions& options) {
  const int64_t tokens = in.q.size(2);
  const std::vector<int64_t> seen = times_seen(in.buckets, options);
  std::vector<double> hidden;
  for (const int64_t times : seen) hidden.push_back(times > 0 ? 0 : 1);
  const Tensor self = eye(tokens, tokens, DType::float64);
  const Tensor scores = matmul(in.q, transpose(lsh_keys(in.q))) * options.scale;
  const Tensor masked = masked_fill(masked_fill(scores, gt(self, 0), -50000),
                                    gt(tensor(hidden, {in.q.size(0), in.q.size(1), tokens, tokens}), 0), -1e300);
  const Tensor weights = exp(masked - max(masked, {3}, true).detach());
  const Tensor some = lt(max(tensor(hidden, masked.shape()) * -1, {3}, true) + 1, 0.5);  // rows that see no key
  return masked_fill(matmul(weights / sum(weights, {3}, true), in.v), some, 0);
}

Tensor some_padding(int64_t n) {
  std::vector<std::pair<int64_t, int64_t>> places{{0, 0}, {0, n - 1}};
  for (int64_t i = 3; i < n; i += 5) places.emplace_back(1, i);
  return keep_all_but(2, n, places);
}

}  // namespace

TEST_CASE("lsh_attention is the formula, with gradients, for any rounds, chunks and buckets") {
  for (const auto& [n, chunk] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 4}, {7, 2}, {24, 4}, {65, 16}, {150, 64}, {300, 64}, {200, 7}}) {
    for (const int64_t hashes : {1, 2, 4}) {
      for (const bool causal : {false, true}) {
        for (const bool padded : {false, true}) {
          CAPTURE(n);
          CAPTURE(chunk);
          CAPTURE(hashes);
          CAPTURE(causal);
          CAPTURE(padded);
          const Inputs in = normal_inputs(2, 2, n, 4, hashes, chunk);
          LshAttentionOptions options{.chunk = chunk, .causal = causal};
          if (padded) options.padding_mask = some_padding(n);
          const std::vector<Tensor> results = forward_backward(in, options);
          const std::vector<Tensor> expected =
              forward_backward(in, [&](const Inputs& at) { return by_loops(at, options); });
          const std::vector<Tensor> weighed = forward_backward(
              in, [&](const Inputs& at) { return matmul(lsh_attention_weights(at.q, at.buckets, options), at.v); });
          for (size_t i = 0; i < results.size(); ++i) {
            CAPTURE(i);
            CHECK(largest_difference(results[i], expected[i]) < 1e-12);
            CHECK(largest_difference(weighed[i], expected[i]) < 1e-12);
          }
        }
      }
    }
  }
}

TEST_CASE("lsh_attention is what reformer-pytorch computes, with its gradients and buckets") {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const std::filesystem::path path = std::filesystem::path(LINNET_TEST_DATA) / "goldens/mechanisms" /
                                       (causal ? "reformer_causal.safetensors" : "reformer.safetensors");
    const TensorMap file = read_safetensors(path).tensors;
    const auto heads = [&](const std::string& name) { return file.at(name).unsqueeze(1); };
    Tensor q = heads("test.qk").clone().set_requires_grad(), v = heads("test.v").clone().set_requires_grad();
    const Tensor buckets = lsh_buckets(q, file.at("rotations").unsqueeze(0));
    CHECK(buckets.to_vector<int64_t>() == file.at("buckets").to_vector<int64_t>());
    // Keys here are of length √(1 − ε) for ε = 1e-6 / mean(q²), there of length 1, as they are here for large
    // queries.
    constexpr double kLarge = 1000;
    const LshAttentionOptions options{.chunk = 16, .causal = causal, .scale = 1 / std::sqrt(8.0) / kLarge};
    const Tensor o = lsh_attention(q * kLarge, v, buckets, options);
    CHECK(largest_difference(o, heads("test.output")) < 1e-7);
    const std::vector<Tensor> gradients = grad({o}, {q, v}, {.grad_outputs = {heads("test.cotangent")}});
    CHECK(relative_error(gradients[0], heads("grad.qk").contiguous().to_vector<double>()) < 1e-7);
    CHECK(relative_error(gradients[1], heads("grad.v").contiguous().to_vector<double>()) < 1e-7);
    // One bucket and one chunk: exact attention with shared queries and keys.
    const Tensor all = lsh_attention(q * kLarge, v, zeros({2, 1, 3, 64}, DType::int64),
                                     {.chunk = 64, .causal = causal, .scale = options.scale});
    CHECK(largest_difference(all, heads("full.output")) < 1e-7);
  }
}

TEST_CASE("lsh_attention in the released form is Hugging Face's layer") {
  const std::filesystem::path path =
      std::filesystem::path(LINNET_TEST_DATA) / "goldens/mechanisms/reformer_released.safetensors";
  const TensorMap file = read_safetensors(path).tensors;
  const auto heads = [&](const char* name) {
    return linear(file.at("test.input"), file.at(name)).reshape({2, 32, 2, 8}).transpose(1, 2);
  };
  const Tensor q = heads("query_key.weight"), v = heads("value.weight");
  const Tensor buckets = lsh_buckets(q, file.at("rotations"));
  CHECK(buckets.to_vector<int64_t>() == file.at("buckets").to_vector<int64_t>());
  const Tensor o = lsh_attention(q, v, buckets, {.chunk = 8, .released = true});
  CHECK(largest_difference(o.transpose(1, 2).reshape({2, 32, 16}), file.at("test.output")) < 1e-12);
  const Tensor weights = lsh_attention_weights(q, buckets, {.chunk = 8, .released = true});
  CHECK(largest_difference(matmul(weights, v), o) < 1e-12);
}

TEST_CASE(
    "lsh_attention in the released form with one bucket and chunk is the other form: padding, causal, gradients") {
  const Inputs in = normal_inputs(2, 2, 40, 4, 1, 8);
  Inputs one = in;
  one.buckets = zeros({2, 2, 3, 40}, DType::int64);
  for (const bool causal : {false, true}) {
    for (const bool padded : {false, true}) {
      CAPTURE(causal);
      CAPTURE(padded);
      LshAttentionOptions options{.chunk = 40, .causal = causal};
      if (padded) options.padding_mask = some_padding(40);
      const std::vector<Tensor> expected = forward_backward(one, options);
      options.released = true;
      // Each token is twice among the keys, in its own chunk and in the previous one, so the weights do not change.
      const std::vector<Tensor> results = forward_backward(one, options);
      for (size_t i = 0; i < results.size(); ++i) CHECK(largest_difference(results[i], expected[i]) < 1e-12);
    }
  }
}

TEST_CASE("lsh_attention takes any numbers for buckets: only their order counts") {
  Inputs in = normal_inputs(2, 2, 90, 4, 3, 8);
  for (const bool padded : {false, true}) {
    LshAttentionOptions options{.chunk = 1};
    if (padded) options.padding_mask = some_padding(90);
    const Tensor expected = lsh_attention(in.q, in.v, in.buckets, options);
    const Tensor far_apart = in.buckets * (int64_t{1} << 58) - (int64_t{1} << 60);
    CHECK(same_bits(lsh_attention(in.q, in.v, far_apart, options), expected));
  }
}

TEST_CASE("lsh_attention with one bucket and a chunk for all tokens is softmax attention without the token itself") {
  const Inputs in = normal_inputs(2, 2, 70, 8, 3, 16);
  const Tensor self = gt(eye(70, 70, DType::float64), 0);
  for (const bool causal : {false, true}) {
    Tensor scores = masked_fill(matmul(in.q, transpose(lsh_keys(in.q))), self, -50000);
    if (causal) scores = masked_fill(scores, gt(triu(ones({70, 70}, DType::float64), 1), 0), -1e300);
    const Tensor weights = exp(scores - max(scores, {3}, true));
    const Tensor expected = matmul(weights / sum(weights, {3}, true), in.v);
    const Tensor one_bucket = zeros({2, 2, 3, 70}, DType::int64);
    CHECK(largest_difference(lsh_attention(in.q, in.v, one_bucket, {.chunk = 70, .causal = causal}), expected) <
          1e-13);
    CHECK(largest_difference(lsh_attention(in.q, in.v, one_bucket, {.chunk = 128, .causal = causal}), expected) <
          1e-13);
  }
}

TEST_CASE("lsh_attention comes near to exact attention with more rounds") {
  // 64 tokens, chunks of 16, 4 buckets, queries from N(0, 4) in 8 numbers: the mean over draws of the
  // relative difference falls like this.
  const std::vector<std::pair<int64_t, double>> expected{{1, 1.32}, {2, 0.83},  {4, 0.41},
                                                         {8, 0.17}, {16, 0.04}, {32, 0.011}};
  std::vector<double> errors(expected.size());
  constexpr int kDraws = 8;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    const Tensor q = normal({1, 1, 64, 8}, 10 + draw) * 2, v = normal({1, 1, 64, 8}, 100 + draw);
    const Tensor exact = lsh_attention(q, v, zeros({1, 1, 1, 64}, DType::int64), {.chunk = 64});
    for (size_t i = 0; i < expected.size(); ++i) {
      Generator rng(1000 + draw);
      const Tensor buckets = lsh_buckets(q, lsh_rotations(1, 8, expected[i].first, 4, rng, DType::float64));
      const Tensor difference = lsh_attention(q, v, buckets, {.chunk = 16}) - exact;
      errors[i] +=
          std::sqrt(sum(difference * difference).item<double>() / sum(exact * exact).item<double>()) / kDraws;
    }
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(expected[i].first);
    CHECK(errors[i] < 1.6 * expected[i].second);
    CHECK(errors[i] > expected[i].second / 1.6);
  }
}

TEST_CASE("Causal lsh_attention with given buckets: the future changes no bit of the past") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Inputs in = normal_inputs(1, 2, 200, 8, 2, 16, DType::float32);
  const LshAttentionOptions options{.chunk = 200, .causal = true};  // one chunk: cuts depend on later tokens
  const Tensor expected = lsh_attention(in.q, in.v, in.buckets, options);
  for (const double value : {3.0, nan, infinity}) {
    const Tensor o = lsh_attention(with_tokens(in.q, 0, 120, 200, value), with_tokens(in.v, 0, 120, 200, value),
                                   in.buckets, options);
    CHECK(same_bits(o.narrow(2, 0, 120), expected.narrow(2, 0, 120)));
  }
}

TEST_CASE("lsh_attention leaves out padding, whatever it holds; a row of padding is 0 and has no gradient") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Inputs in = normal_inputs(2, 2, 90, 3, 2, 8);
  std::vector<std::pair<int64_t, int64_t>> places{{0, 0}, {0, 30}, {0, 31}};
  for (int64_t i = 0; i < 90; ++i) places.emplace_back(1, i);
  for (const bool causal : {false, true}) {
    const LshAttentionOptions options{.chunk = 8, .causal = causal, .padding_mask = keep_all_but(2, 90, places)};
    const std::vector<Tensor> expected = forward_backward(in, options);
    for (const Tensor& x : expected) {
      CHECK(sum(x.narrow(0, 1, 1) * x.narrow(0, 1, 1)).item<double>() == 0);
      CHECK(sum(x.narrow(2, 30, 2) * x.narrow(2, 30, 2)).item<double>() == 0);
    }
    for (const double value : {1e30, nan, infinity}) {
      CAPTURE(value);
      Inputs changed = in;
      for (Tensor* x : {&changed.q, &changed.v}) {
        *x = with_tokens(with_tokens(with_tokens(*x, 0, 30, 32, value), 0, 0, 1, value), 1, 0, 90, value);
      }
      const std::vector<Tensor> results = forward_backward(changed, options);
      for (size_t i = 0; i < results.size(); ++i) {
        for (const auto& [first, end] : {std::pair<int64_t, int64_t>{1, 30}, {32, 90}}) {
          CHECK(same_bits(results[i].narrow(0, 0, 1).narrow(2, first, end - first),
                          expected[i].narrow(0, 0, 1).narrow(2, first, end - first)));
        }
      }
    }
  }
}

TEST_CASE("lsh_attention and its gradients are the same for any number of threads") {
  const Inputs in = normal_inputs(1, 2, 1300, 16, 3, 64, DType::float32);
  for (const bool causal : {false, true}) {
    for (const double dropout : {0.0, 0.1}) {
      Generator generator(11);
      check_threads_change_no_bit([&] {
        generator.set_state({11, 0});
        return forward_backward(in, {.causal = causal, .dropout = dropout, .generator = &generator});
      });
    }
  }
}

TEST_CASE("lsh_attention in float32 is as exact as softmax attention") {
  const Inputs in = normal_inputs(1, 2, 300, 32, 4, 64, DType::float32);
  const Inputs exact{in.q.to(DType::float64), in.v.to(DType::float64), in.buckets};
  for (const bool causal : {false, true}) {
    const std::vector<Tensor> results = forward_backward(in, {.causal = causal});
    const std::vector<Tensor> expected = forward_backward(exact, {.causal = causal});
    for (size_t i = 0; i < results.size(); ++i) {
      CHECK(results[i].dtype() == DType::float32);
      CHECK(largest_difference(results[i].to(DType::float64), expected[i]) < 1e-5);
    }
  }
}

TEST_CASE("Dropout leaves the expectation of lsh_attention as it is") {
  const Inputs in = normal_inputs(1, 1, 12, 3, 2, 4);
  Generator generator(10);
  Tensor total = zeros({1, 1, 12, 3}, DType::float64);
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    total = total + lsh_attention(in.q, in.v, in.buckets, {.chunk = 4, .dropout = 0.25, .generator = &generator});
  }
  CHECK(relative_error(total / kDraws, lsh_attention(in.q, in.v, in.buckets, {.chunk = 4}).to_vector<double>()) <
        0.05);
}

TEST_CASE("lsh_attention of so many tokens that each head is a group of its own is that of the heads alone") {
  constexpr int64_t kTokens = 8192, kWidth = 256;  // a head of 2^21 numbers is a separate group
  const Inputs in = normal_inputs(1, 2, kTokens, kWidth, 2, 16, DType::float32);
  const auto head = [](const Tensor& x, int64_t h) { return x.narrow(1, h, 1); };
  for (const bool causal : {false, true}) {
    const LshAttentionOptions options{.chunk = 16, .causal = causal};
    const auto heads_apart = [&](const Inputs& at) {
      std::vector<Tensor> each;
      for (int64_t h = 0; h < 2; ++h) {
        each.push_back(lsh_attention(head(at.q, h), head(at.v, h), head(at.buckets, h), options));
      }
      return concat(each, 1);
    };
    const std::vector<Tensor> together = forward_backward(in, options), apart = forward_backward(in, heads_apart);
    for (size_t i = 0; i < together.size(); ++i) CHECK(same_bits(together[i], apart[i]));
  }
  // Each group has a different dropout mask.
  Generator rng(5);
  const LshAttentionOptions dropping{.chunk = 16, .dropout = 0.5, .generator = &rng};
  const auto twice = [&](const Tensor& x) { return concat({head(x, 0), head(x, 0)}, 1); };
  const Tensor o = lsh_attention(twice(in.q), twice(in.v), twice(in.buckets), dropping);
  CHECK_FALSE(same_bits(head(o, 0), head(o, 1)));
}

TEST_CASE("lsh_attention takes memory linear in the tokens") {
  const Inputs in = normal_inputs(1, 4, 8192, 8, 4, 64, DType::float32);
  const WithThreads with(1);
  release_cached_memory();
  reset_peak_memory();
  const int64_t live = memory_stats().live;
  forward_backward(in, {});
  CHECK(memory_stats().peak - live < 64 * int64_t{4} * 8192 * 8 * 4);  // of 64 tensors like q, 20 for the rounds
}

TEST_CASE("lsh_attention says what is wrong") {
  const Inputs in = normal_inputs(2, 3, 6, 4, 1, 2);
  const auto refused = [&](const LshAttentionOptions& options, const char* because) {
    CHECK_THROWS_WITH_AS(lsh_attention(in.q, in.v, in.buckets, options), doctest::Contains(because), ValueError);
  };
  refused({.chunk = 0}, "lsh_attention: chunk is 0; it must be at least 1");
  refused({.dropout = 2}, "dropout is 2; it must be in [0, 1]");
  refused({.dropout = 0.5}, "needs a generator");
  CHECK_THROWS_WITH_AS(lsh_attention(in.q, in.v, in.buckets.narrow(3, 0, 5)),
                       doctest::Contains("it must be [2, 3, rounds, 6]"), ShapeError);
  CHECK_THROWS_AS(lsh_attention(in.q, in.v, in.buckets.to(DType::int32)), DTypeError);
  CHECK_THROWS_AS(lsh_attention(in.q, in.v.narrow(2, 0, 5), in.buckets), ShapeError);
  Generator rng(1);
  refused({.chunk = 2, .dropout = 0.5, .generator = &rng, .released = true},
          "dropout is 0.5, but the released form has none; leave one out");
  refused({.chunk = 4, .released = true}, "the released form takes whole chunks, and 6 tokens are no multiple of 4");
}
