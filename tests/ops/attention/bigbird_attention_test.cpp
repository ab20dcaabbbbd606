#include <linnet/ops/attention/bigbird_attention.h>

#include <doctest/doctest.h>

#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/core/memory_stats.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"

/// Compares BigBird's attention with its N×N formula and Hugging Face's layer. Also tests properties of all
/// attentions.

using namespace linnet;
using namespace linnet::test;

namespace {

struct Qkv {
  Tensor q, k, v;
};

Qkv normal_qkv(int64_t b, int64_t h, int64_t n, int64_t d, DType dtype = DType::float64) {
  return {normal({b, h, n, d}, 1, dtype), normal({b, h, n, d}, 2, dtype), normal({b, h, n, d}, 3, dtype)};
}

/// Options with `random` random blocks for each block.
BigBirdAttentionOptions with_random(const Qkv& in, int64_t block, int64_t random, uint64_t seed = 5) {
  return {.block = block,
          .random_blocks = bigbird_random_blocks(in.q.size(2), block, random, in.q.size(1), {seed, 0})};
}

Tensor attend(const Qkv& in, const BigBirdAttentionOptions& options) {
  return bigbird_attention(in.q, in.k, in.v, options);
}

/// Gradients of q, k and v under a cotangent drawn from seed 4, and the output.
template <class F>
std::vector<Tensor> forward_backward(Qkv in, const F& attention) {
  for (Tensor* x : {&in.q, &in.k, &in.v}) {
    *x = x->detach();
    x->set_requires_grad();
  }
  const Tensor o = attention(in);
  std::vector<Tensor> results = grad({o}, {in.q, in.k, in.v}, {.grad_outputs = {normal(o.shape(), 4, o.dtype())}});
  results.push_back(o.detach());
  return results;
}

std::vector<Tensor> forward_backward(const Qkv& in, const BigBirdAttentionOptions& options) {
  return forward_backward(in, [&](const Qkv& at) { return attend(at, options); });
}

}  // namespace

TEST_CASE("bigbird_attention is the formula, with gradients, for any block and number of random blocks") {
  for (const auto& [n, block] : std::vector<std::pair<int64_t, int64_t>>{
           {1, 4}, {23, 4}, {24, 4}, {40, 4}, {41, 4}, {7, 1}, {300, 16}, {333, 37}, {90, 5}}) {
    for (const int64_t random : {0, 1, 3}) {
      for (const bool padded : {false, true}) {
        CAPTURE(n);
        CAPTURE(block);
        CAPTURE(random);
        CAPTURE(padded);
        const Qkv in = normal_qkv(2, 2, n, 3);
        BigBirdAttentionOptions options = with_random(in, block, random);
        if (padded) {
          std::vector<std::pair<int64_t, int64_t>> places{{0, 0}, {0, n - 1}};
          for (int64_t i = 3; i < n; i += 5) places.emplace_back(1, i);
          for (int64_t i = n / 2; i < n; ++i) places.emplace_back(1, i);
          options.padding_mask = keep_all_but(2, n, places);
        }
        const std::vector<Tensor> results = forward_backward(in, options);
        const std::vector<Tensor> expected = forward_backward(
            in, [&](const Qkv& at) { return matmul(bigbird_attention_weights(at.q, at.k, options), at.v); });
        for (size_t i = 0; i < results.size(); ++i) {
          CAPTURE(i);
          CHECK(largest_difference(results[i], expected[i]) < 1e-12);
        }
      }
    }
  }
}

TEST_CASE("bigbird_attention_weights are the softmax over the blocks that the paper lets a block see") {
  const Qkv in = normal_qkv(1, 2, 44, 3);
  const BigBirdAttentionOptions options = with_random(in, 4, 2);  // 11 blocks
  const std::vector<int64_t> random = options.random_blocks.to_vector<int64_t>();
  const auto s = scores(in.q, in.k, 1 / std::sqrt(3.0));
  for (int64_t h = 0; h < 2; ++h) {
    const auto seen = [&](int64_t, int64_t query, int64_t key) {
      const int64_t i = query / 4, j = key / 4;
      if (i == 0 || i == 10 || j == 0 || j == 10 || std::abs(i - j) <= 1) return true;
      const auto at = static_cast<size_t>((h * 9 + i - 1) * 2);
      return random[at] == j || random[at + 1] == j;
    };
    const std::vector<double> expected =
        weighted_means([&](int64_t b, int64_t, int64_t i, int64_t j) { return std::exp(s(b, h, i, j)); }, 44,
                       eye(44, 44, DType::float64).reshape({1, 1, 44, 44}), seen);
    const Tensor weights = bigbird_attention_weights(in.q, in.k, options).narrow(1, h, 1);
    CHECK(relative_error(weights, expected) < 1e-13);
  }
}

TEST_CASE("bigbird_attention is what Hugging Face's layer computes in training on tokens that are no padding") {
  const std::filesystem::path path =
      std::filesystem::path(LINNET_TEST_DATA) / "goldens/mechanisms/bigbird.safetensors";
  const TensorMap file = read_safetensors(path).tensors;
  const Tensor x = file.at("test.input").clone().set_requires_grad();
  std::vector<std::string> names;
  std::vector<Tensor> inputs{x};
  TensorMap maps;
  for (const char* name : {"query", "key", "value"}) {
    for (const char* part : {".weight", ".bias"}) {
      names.push_back(std::string(name) + part);
      inputs.push_back(maps[names.back()] = file.at(names.back()).clone().set_requires_grad());
    }
  }
  const Tensor padding_mask = file.at("test.keep");
  const auto heads = [&](const std::string& name) {
    return linear(x, maps.at(name + ".weight"), maps.at(name + ".bias")).reshape({2, 48, 2, 8}).transpose(1, 2);
  };
  const Tensor o =
      bigbird_attention(heads("query"), heads("key"), heads("value"),
                        {.block = 4, .random_blocks = file.at("test.random_blocks"), .padding_mask = padding_mask});
  const Tensor output = o.transpose(1, 2).reshape({2, 48, 16}) * padding_mask.unsqueeze(-1).to(DType::float64);
  const Tensor kept = padding_mask.unsqueeze(-1).to(DType::float64);
  CHECK(largest_difference(output, file.at("test.output") * kept) < 1e-10);
  const std::vector<Tensor> gradients = grad({output}, inputs, {.grad_outputs = {file.at("test.cotangent")}});
  CHECK(largest_difference(gradients[0], file.at("grad.input")) < 1e-10);
  for (size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    CHECK(largest_difference(gradients[i + 1], file.at("grad." + names[i])) < 1e-10);
  }
}

TEST_CASE("bigbird_attention of few blocks is softmax attention") {
  for (const auto& [n, random] : std::vector<std::pair<int64_t, int64_t>>{{20, 0}, {28, 1}, {36, 2}, {3, 0}}) {
    const Qkv in = normal_qkv(2, 2, n, 5);
    const BigBirdAttentionOptions options = with_random(in, 4, random);
    CHECK(options.random_blocks.size(1) == 0);
    CHECK(same_bits(attend(in, options), softmax_attention(in.q, in.k, in.v)));
  }
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  const Qkv in = normal_qkv(2, 2, 20, 5);
  CHECK(same_bits(attend(in, {.block = kLargest}), softmax_attention(in.q, in.k, in.v)));
}

TEST_CASE("bigbird_random_blocks are those not seen anyway, all different, and all equally likely") {
  std::map<int64_t, int64_t> times;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const std::vector<int64_t> blocks = bigbird_random_blocks(47, 4, 2, 3, {seed, 1}).to_vector<int64_t>();
    REQUIRE(blocks.size() == 3 * 10 * 2);  // 12 blocks
    for (size_t row = 0; row < 30; ++row) {
      const int64_t i = static_cast<int64_t>(row % 10) + 1, a = blocks[2 * row], b = blocks[2 * row + 1];
      REQUIRE(a != b);
      for (const int64_t j : {a, b}) {
        REQUIRE(j >= 1);
        REQUIRE(j <= 10);
        REQUIRE(std::abs(i - j) > 1);
        if (i == 5) ++times[j];
      }
    }
  }
  // Block 5 draws 2 of 1, 2, 3, 7, 8, 9 and 10, in three heads.
  CHECK(times.size() == 7);
  for (const auto& [block, count] : times) CHECK(std::abs(static_cast<double>(count) - 18000.0 / 7) < 200);
  const Tensor blocks = bigbird_random_blocks(400, 4, 1, 2, {7, 2});
  CHECK(blocks.to_vector<int64_t>() == bigbird_random_blocks(400, 4, 1, 2, {7, 2}).to_vector<int64_t>());
  CHECK(blocks.to_vector<int64_t>() != bigbird_random_blocks(400, 4, 1, 2, {8, 2}).to_vector<int64_t>());
}

TEST_CASE("bigbird_attention leaves out padding, whatever it holds; a row without keys is 0 and has no gradient") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const Qkv in = normal_qkv(2, 2, 90, 3);
  std::vector<std::pair<int64_t, int64_t>> places{{0, 0}, {0, 30}, {0, 31}};
  for (int64_t i = 0; i < 90; ++i) places.emplace_back(1, i);
  BigBirdAttentionOptions options = with_random(in, 4, 1);
  options.padding_mask = keep_all_but(2, 90, places);
  const std::vector<Tensor> expected = forward_backward(in, options);
  for (const Tensor& x : expected) CHECK(sum(x.narrow(0, 1, 1) * x.narrow(0, 1, 1)).item<double>() == 0);
  for (const double value : {1e30, kNan, kInfinity}) {
    CAPTURE(value);
    Qkv changed = in;
    for (Tensor* x : {&changed.k, &changed.v}) {
      *x = with_tokens(with_tokens(with_tokens(*x, 0, 30, 32, value), 0, 0, 1, value), 1, 0, 90, value);
    }
    check_same_bits(forward_backward(changed, options), expected);
  }
}

TEST_CASE("bigbird_attention and its gradients are the same for any number of threads") {
  const Qkv in = normal_qkv(1, 2, 1300, 16, DType::float32);
  for (const double dropout : {0.0, 0.1}) {
    BigBirdAttentionOptions options = with_random(in, 16, 1);
    Generator generator(11);
    options.dropout = dropout;
    options.generator = &generator;
    check_threads_change_no_bit([&] {
      generator.set_state({11, 0});
      return forward_backward(in, options);
    });
  }
}

TEST_CASE("bigbird_attention in float32 is as exact as softmax attention") {
  const Qkv in = normal_qkv(1, 2, 300, 32, DType::float32);
  const BigBirdAttentionOptions options = with_random(in, 16, 1);
  const Qkv exact{in.q.to(DType::float64), in.k.to(DType::float64), in.v.to(DType::float64)};
  const std::vector<Tensor> results = forward_backward(in, options), expected = forward_backward(exact, options);
  for (size_t i = 0; i < results.size(); ++i) {
    CHECK(results[i].dtype() == DType::float32);
    CHECK(largest_difference(results[i].to(DType::float64), expected[i]) < 1e-5);
  }
}

TEST_CASE("Dropout leaves the expectation of bigbird_attention as it is") {
  const Qkv in = normal_qkv(1, 1, 18, 3);
  Generator generator(10);
  BigBirdAttentionOptions options = with_random(in, 2, 1);
  const Tensor without = attend(in, options);
  options.dropout = 0.25;
  options.generator = &generator;
  Tensor total = zeros({1, 1, 18, 3}, DType::float64);
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) total = total + attend(in, options);
  CHECK(relative_error(total / kDraws, without.to_vector<double>()) < 0.05);
}

TEST_CASE("bigbird_attention takes memory linear in the tokens") {
  const Qkv in = normal_qkv(1, 4, 8192, 8, DType::float32);
  const WithThreads with(1);
  const BigBirdAttentionOptions options = with_random(in, 16, 1);
  release_cached_memory();
  reset_peak_memory();
  const int64_t live = memory_stats().live;
  forward_backward(in, options);
  CHECK(memory_stats().peak - live < 20 * int64_t{4} * 8192 * 8 * 4);  // 20 tensors like q
}

TEST_CASE("bigbird_attention says what is wrong") {
  const Qkv in = normal_qkv(2, 3, 40, 4);
  const auto refused = [&](const BigBirdAttentionOptions& options, const char* because) {
    CHECK_THROWS_WITH_AS(attend(in, options), doctest::Contains(because), ValueError);
  };
  refused({.block = 0}, "bigbird_attention: block is 0; it must be at least 1");
  refused({.dropout = 2}, "dropout is 2; it must be in [0, 1]");
  refused({.dropout = 0.5}, "needs a generator");
  refused({.random_blocks = zeros({3, 8})}, "it must be int64 [heads, blocks - 2, r] on the CPU");
  BigBirdAttentionOptions options = with_random(in, 4, 1);
  options.random_blocks.fill_(9);
  refused(options, "random block 9 of block 1 is not from 1 to 8, or is seen already");
  options.random_blocks.fill_(2);
  refused(options, "random block 2 of block 1 is not from 1 to 8, or is seen already");
  options = with_random(in, 5, 0);
  options.random_blocks = zeros({3, 7, 1}, DType::int64);
  CHECK_THROWS_WITH_AS(attend(in, options), doctest::Contains("it must be [3, 6, 1]"), ShapeError);
  CHECK_THROWS_AS(attend(in, {.padding_mask = ones({2, 5}, DType::boolean)}), ShapeError);
  CHECK_THROWS_AS(bigbird_attention(in.q, in.k.narrow(2, 0, 5), in.v), ShapeError);
  CHECK_THROWS_AS(bigbird_random_blocks(10, 0, 1, 1, {1, 1}), ValueError);
  CHECK_THROWS_AS(bigbird_random_blocks(10, 1, -1, 1, {1, 1}), ValueError);
}
