#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/fastformer/fastformer.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// The definition, tap by tap.
std::vector<double> short_conv_reference(const Tensor& x, const Tensor& weight, const ShortConvOptions& options) {
  const int64_t batch = x.size(0), tokens = x.size(1), width = x.size(2), taps = weight.size(1);
  const std::vector<double> from = x.to_vector<double>(), w = weight.to_vector<double>();
  const std::vector<bool> padding_mask =
      options.padding_mask.defined() ? options.padding_mask.to_vector<bool>() : std::vector<bool>();
  std::vector<double> y = from;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < tokens; ++i) {
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t j = i - (options.causal ? taps - 1 : (taps - 1) / 2) + t;
        if (j < 0 || j >= tokens || (!padding_mask.empty() && !padding_mask[static_cast<size_t>(b * tokens + j)]))
          continue;
        for (int64_t c = 0; c < width; ++c) {
          y[static_cast<size_t>((b * tokens + i) * width + c)] +=
              w[static_cast<size_t>(c * taps + t)] * from[static_cast<size_t>((b * tokens + j) * width + c)];
        }
      }
    }
  }
  return y;
}

/// dx, dweight and y.
std::vector<Tensor> forward_backward(const Tensor& x, const Tensor& weight, const ShortConvOptions& options,
                                     const Tensor& cotangent) {
  const std::vector<Tensor> leaves = {x.detach().set_requires_grad(), weight.detach().set_requires_grad()};
  const Tensor y = short_conv(leaves[0], leaves[1], options);
  std::vector<Tensor> results = grad({y}, leaves, {.grad_outputs = {cotangent}});
  results.push_back(y.detach());
  return results;
}

}  // namespace

TEST_CASE("short_conv is x and the taps written out, for any width") {
  const Tensor padding_mask = keep_all_but(2, 11, {{0, 0}, {0, 4}, {1, 9}, {1, 10}});
  for (const int64_t taps : {1, 2, 3, 4, 5, 8, 13}) {
    const Tensor x = normal({2, 11, 7}, 1), weight = normal({7, taps}, 2);
    for (const bool causal : {false, true}) {
      for (const Tensor& mask : {Tensor(), padding_mask}) {
        const ShortConvOptions options{causal, mask};
        CHECK(relative_error(short_conv(x, weight, options), short_conv_reference(x, weight, options)) < 1e-14);
      }
    }
  }
}

TEST_CASE("short_conv: neither padding nor, when causal, the future changes a bit") {
  const Tensor x = normal({1, 40, 6}, 1, DType::float32), weight = normal({6, 4}, 2, DType::float32);
  const Tensor g = normal({1, 40, 6}, 3, DType::float32);
  const auto changed = [&](double value) {
    Tensor other = x.clone();
    other.narrow(1, 20, 20).fill_(value);
    return other;
  };
  const std::vector<Tensor> expected = forward_backward(x, weight, {.causal = true}, g);
  for (const double value : {3.0, std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(same_bits(short_conv(changed(value), weight, {.causal = true}).narrow(1, 0, 20),
                    expected[2].narrow(1, 0, 20)));
  }
  std::vector<std::pair<int64_t, int64_t>> padding;
  for (int64_t i = 20; i < 40; ++i) padding.emplace_back(0, i);
  for (const bool causal : {false, true}) {
    const ShortConvOptions options{causal, keep_all_but(1, 40, padding)};
    const std::vector<Tensor> kept = forward_backward(x, weight, options, g);
    for (const double value : {3.0, std::numeric_limits<double>::quiet_NaN()}) {
      const std::vector<Tensor> results = forward_backward(changed(value), weight, options, g);
      CHECK(same_bits(results[0], kept[0]));
      CHECK(same_bits(results[1], kept[1]));
      CHECK(same_bits(results[2].narrow(1, 0, 20), kept[2].narrow(1, 0, 20)));
    }
  }
}

TEST_CASE("short_conv of several chunks of tokens is its definition, and its gradients are its transposes") {
  // A chunk has 32,768/40 = 819 tokens.
  const Tensor x = normal({2, 3000, 40}, 1), weight = normal({40, 4}, 2), g = normal({2, 3000, 40}, 3);
  const Tensor of_x = normal({2, 3000, 40}, 4), of_weight = normal({40, 4}, 5);
  const Tensor padding_mask = keep_all_but(2, 3000, {{0, 0}, {0, 818}, {1, 819}, {1, 1637}, {1, 2999}});
  const auto product = [](const Tensor& a, const Tensor& b) { return sum(a * b).item<double>(); };
  for (const bool causal : {false, true}) {
    for (const Tensor& mask : {Tensor(), padding_mask}) {
      const ShortConvOptions options{causal, mask};
      const std::vector<Tensor> results = forward_backward(x, weight, options, g);
      CHECK(relative_error(results[2], short_conv_reference(x, weight, options)) < 1e-14);
      // y is linear in x, and y − x in the weight.
      CHECK(product(g, short_conv(of_x, weight, options)) == near(product(of_x, results[0]), 1e-11));
      CHECK(product(g, short_conv(x, of_weight, options) - x) == near(product(of_weight, results[1]), 1e-11));
    }
  }
}

TEST_CASE("short_conv: long sequences, strided inputs and any number of threads") {
  const Tensor wide = normal({2, 3000, 3 * 40}, 1, DType::float32), weight = normal({40, 4}, 2, DType::float32);
  const Tensor x = wide.narrow(2, 40, 40), g = normal({2, 3000, 40}, 3, DType::float32);
  for (const bool causal : {false, true}) {
    const std::vector<Tensor> expected = forward_backward(x.contiguous(), weight, {.causal = causal}, g);
    const std::vector<Tensor> exact =
        forward_backward(x.to(DType::float64), weight.to(DType::float64), {.causal = causal}, g.to(DType::float64));
    for (size_t i = 0; i < 3; ++i) CHECK(relative_error(expected[i], exact[i].to_vector<double>()) < 1e-6);
    check_threads_change_no_bit([&] {
      const std::vector<Tensor> results = forward_backward(x, weight, {.causal = causal}, g);
      check_same_bits(results, expected);
      return results;
    });
  }
}

TEST_CASE("short_conv says what is wrong") {
  const Tensor x = normal({2, 5, 3}, 1);
  CHECK_THROWS_WITH_AS(short_conv(x, normal({4, 3}, 2), {}, {"a.cpp", 1}),
                       "short_conv: weight[4, 3] does not fit x[2, 5, 3]: it must be [3, taps], with at least one "
                       "tap (a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_AS(short_conv(x, normal({3, 0}, 2)), ShapeError);
  CHECK_THROWS_AS(short_conv(x.select(0, 0), normal({3, 2}, 2)), ShapeError);
  CHECK_THROWS_AS(short_conv(x, normal({3, 2}, 2, DType::float32)), DTypeError);
  CHECK_THROWS_AS(short_conv(x, normal({3, 2}, 2), {.padding_mask = ones({2, 4}, DType::boolean)}), ShapeError);
  CHECK_THROWS_AS(short_conv(x, normal({3, 2}, 2), {.padding_mask = ones({2, 5})}), DTypeError);
}
