#include <linnet/ops/attention/informer_attention.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/files/safetensors.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

/// Compares Informer's attention with its formula in float64 and its authors' code. Also tests properties of all
/// attentions.

using namespace linnet;
using namespace linnet::test;
using test::kInfinity;
using test::kNan;

namespace {

struct Qkv {
  Tensor q, k, v;
};

Qkv normal_qkv(int64_t b, int64_t h, int64_t n, int64_t d, DType dtype = DType::float64) {
  return {normal({b, h, n, d}, 1, dtype), normal({b, h, n, d}, 2, dtype), normal({b, h, n, d}, 3, dtype)};
}

Tensor attend(const Qkv& in, const InformerAttentionOptions& options) {
  return informer_attention(in.q, in.k, in.v, options);
}

/// Options whose samples are drawn from `seed`.
Tensor attend(const Qkv& in, InformerAttentionOptions options, uint64_t seed) {
  Generator generator(seed);
  options.generator = &generator;
  return attend(in, options);
}

/// Gradients of q, k and v under a cotangent drawn from seed 4, and the output.
std::vector<Tensor> forward_backward(Qkv in, const InformerAttentionOptions& options) {
  for (Tensor* x : {&in.q, &in.k, &in.v}) {
    *x = x->detach();
    x->set_requires_grad();
  }
  const Tensor o = attend(in, options);
  std::vector<Tensor> results = grad({o}, {in.q, in.k, in.v}, {.grad_outputs = {normal(o.shape(), 4, o.dtype())}});
  results.push_back(o.detach());
  return results;
}

/// The samples by the documentation: `queries` of the N keys for each query, from a new generator.
Tensor drawn_samples(int64_t tokens, int64_t queries, uint64_t seed) {
  Generator generator(seed);
  std::vector<Tensor> columns;
  for (int64_t first = 0; first < queries; first += 16) {
    columns.push_back(randint(0, int64_t{1} << 31, {tokens, 16}, generator));
  }
  const std::vector<int64_t> words = concat(columns, 1).narrow(1, 0, queries).to_vector<int64_t>();
  std::vector<int64_t> samples;
  for (const int64_t word : words) samples.push_back(word * tokens >> 31);
  return tensor(samples).reshape({tokens, queries});
}

/// The queries that the formula chooses for sequence b and head h: `queries` of them, or fewer if fewer are not
/// padding.
std::vector<int64_t> chosen_by_formula(const Qkv& in, const Tensor& samples, int64_t b, int64_t h, const Sees& kept) {
  const int64_t n = in.q.size(2), u = samples.size(1);
  const std::vector<int64_t> sampled = samples.to_vector<int64_t>();
  const auto s = scores(in.q, in.k, 1);
  std::vector<int64_t> queries;
  for (int64_t i = 0; i < n; ++i) {
    if (kept(b, 0, i)) queries.push_back(i);
  }
  std::vector<double> measure(static_cast<size_t>(n));
  for (const int64_t i : queries) {
    double largest = -kInfinity, sum = 0;
    for (int64_t j = 0; j < u; ++j) {
      const double score = s(b, h, i, sampled[static_cast<size_t>(i * u + j)]);
      largest = std::max(largest, score);
      sum += score;
    }
    measure[static_cast<size_t>(i)] = largest - sum / static_cast<double>(queries.size());
  }
  std::ranges::stable_sort(queries, std::greater(), [&](int64_t i) { return measure[static_cast<size_t>(i)]; });
  queries.resize(std::min(queries.size(), static_cast<size_t>(u)));
  return queries;
}

std::vector<double> reference(const Qkv& in, const Tensor& samples, const Tensor& padding_mask = {}) {
  const int64_t batch = in.q.size(0), heads = in.q.size(1), n = in.q.size(2);
  const Sees kept = sees(n, n, false, padding_mask);
  std::vector<bool> chosen(static_cast<size_t>(batch * heads * n));
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (const int64_t i : chosen_by_formula(in, samples, b, h, kept)) {
        chosen[static_cast<size_t>((b * heads + h) * n + i)] = true;
      }
    }
  }
  const auto s = scores(in.q, in.k, 1 / std::sqrt(static_cast<double>(in.q.size(3))));
  const auto weight = [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    return chosen[static_cast<size_t>((b * heads + h) * n + i)] ? std::exp(s(b, h, i, j)) : 1;
  };
  return weighted_means(weight, n, in.v, kept);
}

/// The rows of one head's weights [N, N] that are not all 1/N.
std::vector<int64_t> chosen_rows(const Tensor& weights) {
  const int64_t n = weights.size(0);
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < n; ++i) {
    if (!(max(abs(weights.select(0, i) - 1 / static_cast<double>(n))).item<double>() <= 1e-9)) rows.push_back(i);
  }
  return rows;
}

std::vector<double> values_of(const Tensor& x) { return x.contiguous().to_vector<double>(); }

}  // namespace

TEST_CASE("informer_attention is what its authors' code computes from the same samples, and chooses what that does") {
  const std::filesystem::path path =
      std::filesystem::path(LINNET_TEST_DATA) / "goldens/mechanisms/informer.safetensors";
  const TensorMap file = read_safetensors(path).tensors;
  const auto heads = [&](const std::string& name) { return file.at(name).transpose(1, 2); };
  Tensor q = heads("test.q").clone().set_requires_grad(), k = heads("test.k").clone().set_requires_grad(),
         v = heads("test.v").clone().set_requires_grad();
  const InformerAttentionOptions options{.samples = file.at("samples")};
  const Tensor o = informer_attention(q, k, v, options);
  CHECK(relative_error(o, values_of(heads("test.output"))) < 1e-10);
  const std::vector<Tensor> gradients = grad({o}, {q, k, v}, {.grad_outputs = {heads("test.cotangent")}});
  CHECK(relative_error(gradients[0], values_of(heads("grad.q"))) < 1e-10);
  CHECK(relative_error(gradients[1], values_of(heads("grad.k"))) < 1e-10);
  CHECK(relative_error(gradients[2], values_of(heads("grad.v"))) < 1e-10);

  const Tensor weights = informer_attention_weights(q.detach(), k.detach(), options);
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 2; ++h) {
      CHECK(chosen_rows(weights.select(0, b).select(0, h)) ==
            file.at("selected").select(0, b).select(0, h).to_vector<int64_t>());
    }
  }
}

TEST_CASE("informer_queries: the factor times the ceiling of the logarithm, at most all and at least one") {
  CHECK(informer_queries(0) == 0);
  CHECK(informer_queries(1) == 1);
  CHECK(informer_queries(2, 1) == 1);
  CHECK(informer_queries(3, 1) == 2);
  CHECK(informer_queries(15) == 15);
  CHECK(informer_queries(16) == 15);  // 5·⌈2.77⌉
  CHECK(informer_queries(40, 2) == 8);
  CHECK(informer_queries(65536) == 60);
  CHECK(informer_queries(1000, std::numeric_limits<int64_t>::max()) == 1000);
  CHECK_THROWS_WITH_AS(informer_queries(10, 0, {"a.cpp", 1}),
                       "informer_queries: factor is 0; it must be at least 1 (a.cpp:1)", ValueError);
}

TEST_CASE("informer_attention of all queries is softmax_attention, and draws nothing") {
  for (const int64_t n : {1, 5, 15}) {
    const Qkv in = normal_qkv(2, 2, n, 3);
    const Tensor padding_mask = keep_all_but(2, n, {{0, 0}});
    CHECK(same_bits(attend(in, {}), softmax_attention(in.q, in.k, in.v)));
    CHECK(same_bits(attend(in, {.queries = 100, .padding_mask = padding_mask}),
                    softmax_attention(in.q, in.k, in.v, {.padding_mask = padding_mask})));
    Generator one(5), other(5);
    CHECK(same_bits(attend(in, {.dropout = 0.3, .generator = &one}),
                    softmax_attention(in.q, in.k, in.v, {.dropout = 0.3, .generator = &other})));
    CHECK(one.state().draws == other.state().draws);
  }
}

TEST_CASE("informer_attention is the explicit formula, of samples given and drawn") {
  for (const auto& [n, u] : std::vector<std::pair<int64_t, int64_t>>{{2, 1}, {5, 2}, {40, 20}, {300, 30}, {70, 1}}) {
    CAPTURE(n);
    CAPTURE(u);
    const Qkv in = normal_qkv(2, 3, n, 4);
    const Tensor samples = drawn_samples(n, u, 21);
    const std::vector<double> expected = reference(in, samples);
    CHECK(relative_error(attend(in, {.samples = samples}), expected) < 1e-13);
    CHECK(relative_error(attend(in, {.samples = samples.unsqueeze(0).expand({2, n, u})}), expected) < 1e-13);
    CHECK(relative_error(attend(in, {.samples = samples.to(DType::int32)}), expected) < 1e-13);
    CHECK(relative_error(attend(in, {.queries = u}, 21), expected) < 1e-13);
    if (u == informer_queries(n)) CHECK(relative_error(attend(in, {}, 21), expected) < 1e-13);
  }
  const Qkv single = normal_qkv(2, 2, 200, 16, DType::float32);
  const Tensor o = attend(single, {}, 22);
  CHECK(o.dtype() == DType::float32);
  CHECK(relative_error(o, reference(single, drawn_samples(200, informer_queries(200), 22))) < 1e-6);
}

TEST_CASE("informer_attention computes M of many queries in parts, and reads no query of another part") {
  const Qkv in = normal_qkv(2, 2, 3000, 40);  // with 45 samples of 80 numbers, 145 queries at a time
  const Tensor samples = drawn_samples(3000, 45, 23);
  CHECK(relative_error(attend(in, {}, 23), reference(in, samples)) < 1e-12);
}

TEST_CASE("informer_attention chooses the earlier of queries with the same M") {
  Qkv in = normal_qkv(1, 1, 6, 3);
  const Tensor samples = tensor<int64_t>({0, 3}).expand({6, 2});
  const Tensor longest = in.q.narrow(2, 4, 1) * 50;
  in.q = concat({in.q.narrow(2, 0, 2), longest, in.q.narrow(2, 3, 1), longest, longest}, 2);
  in.k = in.k * (sum(longest * in.k.narrow(2, 0, 1)).item<double>() < 0 ? -1 : 1);
  const auto rows = [&](int64_t u) {
    const InformerAttentionOptions options{.samples = samples.narrow(1, 0, u)};
    return chosen_rows(informer_attention_weights(in.q, in.k, options).select(0, 0).select(0, 0));
  };
  CHECK(rows(1) == std::vector<int64_t>{2});
  CHECK(rows(2) == std::vector<int64_t>{2, 4});
}

TEST_CASE("informer_attention leaves out padding, whatever it holds; a sequence of it alone gives 0") {
  const int64_t n = 40;
  const Qkv in = normal_qkv(4, 2, n, 3);
  std::vector<std::pair<int64_t, int64_t>> padding{{0, 0}, {0, 17}, {0, 18}};
  for (int64_t i = 0; i < n; ++i) {
    padding.emplace_back(1, i);
    if (i != 7) padding.emplace_back(2, i);  // only one token is not padding
    if (i >= 20) padding.emplace_back(3, i);
  }
  const Tensor padding_mask = keep_all_but(4, n, padding);
  Generator generator(31);
  const InformerAttentionOptions options{.padding_mask = padding_mask, .generator = &generator};
  const auto results_of = [&](const Qkv& of) {
    generator.set_state({31, 0});
    return forward_backward(of, options);
  };
  const std::vector<Tensor> expected = results_of(in);
  for (const Tensor& x : expected) CHECK(sum(square(x.narrow(0, 1, 1))).item<double>() == 0);
  for (const double value : {1e30, -1e30, kNan, kInfinity}) {
    CAPTURE(value);
    Qkv changed = in;
    for (Tensor* x : {&changed.q, &changed.k, &changed.v}) {
      *x = with_tokens(with_tokens(with_tokens(*x, 0, 17, 19, value), 1, 0, n, value), 3, 20, n, value);
      *x = with_tokens(with_tokens(*x, 2, 0, 7, value), 2, 8, n, value);
    }
    check_same_bits(results_of(changed), expected);
  }
  // The mean is that of the only remaining token; every row of padding gives it too.
  CHECK(relative_error(expected[3].narrow(0, 2, 1),
                       values_of(in.v.narrow(0, 2, 1).narrow(2, 7, 1).expand({1, 2, n, 3}))) < 1e-15);
}

TEST_CASE("informer_attention in a longer batch is what it is alone, wherever the padding is") {
  const int64_t n = 40;
  const Qkv in = normal_qkv(1, 2, n, 3);
  for (const InformerAttentionOptions& options :
       {InformerAttentionOptions{}, {.factor = 1}, {.queries = 3}, {.queries = 35}}) {
    const Tensor alone = attend(in, options, 41);
    // u is 20 of 40 tokens by the default factor, 25 of 60 and 35 of 500.
    for (const auto& [front, back] : std::vector<std::pair<int64_t, int64_t>>{{0, 20}, {0, 460}, {7, 13}, {460, 0}}) {
      CAPTURE(front);
      CAPTURE(back);
      const auto longer = [&, front = front, back = back](const Tensor& x) {
        return concat({normal({1, 2, front, 3}, 6), x, normal({1, 2, back, 3}, 7)}, 2);
      };
      InformerAttentionOptions padded = options;
      padded.padding_mask = concat(
          {zeros({1, front}, DType::boolean), ones({1, n}, DType::boolean), zeros({1, back}, DType::boolean)}, 1);
      const Tensor o = attend({longer(in.q), longer(in.k), longer(in.v)}, padded, 41);
      CHECK(relative_error(o.narrow(2, front, n), values_of(alone)) < 1e-13);
    }
  }
}

TEST_CASE("informer_attention with samples given and padding is the explicit formula") {
  const int64_t n = 20, u = 6;
  const Qkv in = normal_qkv(2, 2, n, 3);
  std::vector<std::pair<int64_t, int64_t>> padding{{0, 4}};
  for (int64_t i = 4; i < n; ++i) padding.emplace_back(1, i);  // fewer tokens than are chosen
  const Tensor padding_mask = keep_all_but(2, n, padding);
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < n * u; ++i) samples.push_back(i * i % 4);
  const Tensor given = tensor(samples).reshape({n, u});
  CHECK(relative_error(attend(in, {.padding_mask = padding_mask, .samples = given}),
                       reference(in, given, padding_mask)) < 1e-13);
}

TEST_CASE("informer_attention does not care for the order of tokens whose samples are exchanged with them") {
  const int64_t n = 30, u = 7;
  const Qkv in = normal_qkv(2, 2, n, 4);
  Generator rng(5);
  const Tensor order = randperm(n, rng), samples = drawn_samples(n, u, 24);
  const std::vector<int64_t> places = order.to_vector<int64_t>();
  std::vector<int64_t> numbers(static_cast<size_t>(n));  // the new number of each token
  for (int64_t i = 0; i < n; ++i) numbers[static_cast<size_t>(places[static_cast<size_t>(i)])] = i;
  std::vector<int64_t> moved = index_select(samples, 0, order).to_vector<int64_t>();
  for (int64_t& key : moved) key = numbers[static_cast<size_t>(key)];
  const auto reordered = [&](const Tensor& x) { return index_select(x, 2, order); };
  const Tensor o =
      attend({reordered(in.q), reordered(in.k), reordered(in.v)}, {.samples = tensor(moved).reshape({n, u})});
  CHECK(relative_error(o, values_of(reordered(attend(in, {.samples = samples})))) < 1e-13);
}

TEST_CASE("informer_attention and its gradients are the same for any number of threads") {
  const Qkv in = normal_qkv(3, 2, 1300, 16, DType::float32);
  for (const Tensor& padding_mask : {Tensor(), keep_all_but(3, 1300, {{0, 0}, {2, 1299}})}) {
    for (const double dropout : {0.0, 0.1}) {
      Generator generator(11);
      check_threads_change_no_bit([&] {
        generator.set_state({11, 0});
        return forward_backward(in, {.padding_mask = padding_mask, .dropout = dropout, .generator = &generator});
      });
    }
  }
}

TEST_CASE("informer_attention draws for 16 samples at a time, then the dropout of the chosen rows") {
  const Qkv in = normal_qkv(1, 2, 40, 3);
  const auto draws = [&](const InformerAttentionOptions& options) {
    Generator generator(9);
    InformerAttentionOptions drawn = options;
    drawn.generator = &generator;
    attend(in, drawn);
    return generator.state().draws;
  };
  CHECK(draws({}) == 2);  // of 20 samples
  CHECK(draws({.queries = 16}) == 1);
  CHECK(draws({.queries = 17, .dropout = 0.1}) == 3);
  CHECK(draws({.samples = drawn_samples(40, 8, 1), .dropout = 0.1}) == 1);
  CHECK(draws({.samples = drawn_samples(40, 8, 1)}) == 0);

  Generator generator(9);
  const Tensor samples = drawn_samples(40, 8, 1);
  const Tensor plain = attend(in, {.samples = samples});
  const Tensor dropped = attend(in, {.samples = samples, .dropout = 0.5, .generator = &generator});
  const Tensor changed = max(abs(plain - dropped), {3});
  CHECK(sum(gt(changed, 0)).item<int64_t>() == 2 * 8);  // the chosen rows, of two heads
}

TEST_CASE("Dropout leaves the expectation of informer_attention as it is") {
  const Qkv in = normal_qkv(1, 1, 8, 3);
  const Tensor samples = drawn_samples(8, 3, 1);
  Generator generator(10);
  Tensor total = zeros({1, 1, 8, 3}, DType::float64);
  constexpr int kDraws = 4000;
  for (int i = 0; i < kDraws; ++i) {
    total = total + attend(in, {.samples = samples, .dropout = 0.25, .generator = &generator});
  }
  CHECK(relative_error(total / kDraws, values_of(attend(in, {.samples = samples}))) < 0.05);
}

TEST_CASE("informer_attention_weights times the values are what informer_attention gives; rows sum to 1") {
  const int64_t n = 40;
  const Qkv in = normal_qkv(2, 2, n, 3);
  std::vector<std::pair<int64_t, int64_t>> padding;
  for (int64_t i = 0; i < 20; ++i) padding.emplace_back(0, i);  // 15 of these 20 are chosen, and 20 of 40
  for (int64_t i = 0; i < n; ++i) padding.emplace_back(1, i);
  for (const Tensor& padding_mask : {Tensor(), keep_all_but(2, n, {{0, 4}, {1, 39}}), keep_all_but(2, n, padding)}) {
    Generator one(6), other(6);
    const Tensor weights = informer_attention_weights(in.q, in.k, {.padding_mask = padding_mask, .generator = &one});
    CHECK(weights.shape() == Shape{2, 2, n, n});
    const Tensor o = attend(in, {.padding_mask = padding_mask, .generator = &other});
    CHECK(relative_error(matmul(weights, in.v), values_of(o)) < 1e-13);
    CHECK(one.state().draws == other.state().draws);
    const std::vector<double> sums = sum(weights, {3}).to_vector<double>();
    const bool none_in_second = padding_mask.defined() && !any(padding_mask.select(0, 1)).item<bool>();
    for (size_t i = 0; i < sums.size(); ++i) {
      CHECK(sums[i] == doctest::Approx(i >= sums.size() / 2 && none_in_second ? 0 : 1).epsilon(1e-13));
    }
  }
}

TEST_CASE("informer_attention takes memory linear in the tokens") {
  const Qkv in = normal_qkv(1, 1, 8192, 8, DType::float32);
  const WithThreads with(1);
  release_cached_memory();
  reset_peak_memory();
  const int64_t live = memory_stats().live;
  Generator generator(1);
  forward_backward(in, {.generator = &generator});
  CHECK(memory_stats().peak - live < int64_t{8192} * 8192 * 4 / 10);
}

TEST_CASE("informer_attention says what is wrong") {
  const auto [q, k, v] = normal_qkv(2, 3, 20, 6);
  const Where where{"a.cpp", 1};
  CHECK_THROWS_WITH_AS(
      informer_attention(q.reshape({6, 20, 6}), k, v, {}, where),
      "informer_attention: q[6, 20, 6] has rank 3; [batch, heads, tokens, width] is needed (a.cpp:1)", ShapeError);
  CHECK_THROWS_WITH_AS(informer_attention(q.narrow(2, 0, 4), k, v, {}, where),
                       "informer_attention: q[2, 3, 4, 6] and k[2, 3, 20, 6] differ in tokens (4 ≠ 20); queries and "
                       "keys must be of the same tokens (a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_AS(informer_attention(q, k.to(DType::float32), v), DTypeError);
  CHECK_THROWS_AS(informer_attention(q, k, v, {.padding_mask = ones({2, 20})}), DTypeError);
  CHECK_THROWS_AS(informer_attention(q, k, v, {.padding_mask = ones({2, 4}, DType::boolean)}), ShapeError);
  CHECK_THROWS_WITH_AS(informer_attention(q, k, v, {.factor = 0}, where),
                       "informer_attention: factor is 0; it must be at least 1 (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(informer_attention(q, k, v, {.queries = -1}, where),
                       "informer_attention: queries is -1; it must be at least 1, or 0 for a number that grows with "
                       "the tokens (a.cpp:1)",
                       ValueError);
  CHECK_THROWS_WITH_AS(informer_attention(q, k, v, {}, where),
                       "informer_attention: drawing samples needs a generator; set options.generator, or give "
                       "options.samples (a.cpp:1)",
                       ValueError);
  CHECK_THROWS_WITH_AS(informer_attention(q, k, v, {.dropout = 1.5}, where),
                       "informer_attention: dropout is 1.5; it must be in [0, 1] (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(
      informer_attention(q, k, v, {.samples = zeros({19, 3}, DType::int64)}, where),
      "informer_attention: samples[19, 3] do not fit q[2, 3, 20, 6]: they must be [20, u] or [2, 20, u], with u of 1 "
      "or more (a.cpp:1)",
      ShapeError);
  CHECK_THROWS_AS(informer_attention(q, k, v, {.samples = zeros({20, 0}, DType::int64)}), ShapeError);
  CHECK_THROWS_AS(informer_attention(q, k, v, {.samples = zeros({20, 3})}), DTypeError);
  CHECK_THROWS_WITH_AS(informer_attention(q, k, v, {.samples = full({20, 3}, 20, DType::int64)}, where),
                       doctest::Contains("informer_attention: samples[0, 0] is 20, outside [0, 20)"), IndexError);
}
