#include <linnet/ops/attention/performer_attention.h>

#include <doctest/doctest.h>

#include <cmath>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"
#include "tests/support/same_bits.h"

/// The random matrix of FAVOR+ must have the properties that make it an unbiased estimate of softmax attention.

using namespace linnet;
using namespace linnet::test;

namespace {

Tensor random_projection(int64_t features, int64_t width) {
  Generator generator(31);
  return performer_projection(features, width, generator, DType::float64);
}

/// φ(q)·φ(k) for all pairs, and its expected value exp(q·k/√D): [N, M].
struct Estimate {
  Tensor estimate, exact;
};

Estimate estimate_weights(const Tensor& q, const Tensor& k, const Tensor& omega) {
  const auto features = static_cast<double>(omega.size(0)), width = static_cast<double>(omega.size(1));
  return {matmul(exp(performer_log_features(q, omega)), transpose(exp(performer_log_features(k, omega)))) / features,
          exp(matmul(q, transpose(k)) / std::sqrt(width))};
}

}  // namespace

TEST_CASE("performer_projection: rows of a block are orthogonal, and have lengths of normal vectors") {
  for (const auto& [features, width] : std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {5, 8}, {20, 8}, {110, 32}}) {
    CAPTURE(features);
    CAPTURE(width);
    const Tensor omega = random_projection(features, width);
    CHECK(omega.shape() == Shape{features, width});
    const Tensor rows = omega / sqrt(sum(square(omega), {1}, true));
    for (int64_t first = 0; first < features; first += width) {
      const int64_t count = std::min(width, features - first);
      const Tensor block = rows.narrow(0, first, count);
      CHECK(max(abs(matmul(block, transpose(block)) - eye(count, -1, DType::float64))).item<double>() < 1e-14);
    }
  }
  // ‖ω‖² has mean D and variance 2·D, and is independent of the row that gave the direction.
  const Tensor squares = sum(square(random_projection(4000, 16)), {1});
  CHECK(mean(squares).item<double>() == doctest::Approx(16).epsilon(0.03));
  CHECK(var(squares).item<double>() == doctest::Approx(32).epsilon(0.15));
}

TEST_CASE("performer_projection is one draw, the same for every dtype") {
  Generator generator(31);
  const Tensor omega = performer_projection(20, 8, generator);
  CHECK(generator.state().draws == 1);
  CHECK(same_bits(omega, random_projection(20, 8).to(DType::float32)));
  CHECK_FALSE(same_bits(performer_projection(20, 8, generator), omega));
  CHECK(performer_features(32) == 110);
  CHECK(performer_features(64) == 266);
  CHECK(performer_features(2) == 1);
  CHECK(performer_features(1) == 1);
  CHECK_THROWS_WITH_AS(performer_projection(0, 8, generator, DType::float32, Device::cpu, {"a.cpp", 1}),
                       "performer_projection: 0 features of width 8; both must be at least 1 (a.cpp:1)", ValueError);
  CHECK_THROWS_AS(performer_projection(8, 0, generator), ValueError);
  CHECK_THROWS_AS(performer_projection(8, 8, generator, DType::int64), DTypeError);
  CHECK(generator.state().draws == 2);
}

TEST_CASE("performer_projection: the weights of softmax attention are what features estimate, without a bias") {
  constexpr int kDraws = 1000;
  const Tensor q = normal({16, 16}, 1) * 0.25, k = normal({16, 16}, 2) * 0.25;
  Generator generator(3);
  Tensor total = zeros({16, 16}, DType::float64), squares = total, exact;
  for (int i = 0; i < kDraws; ++i) {
    const Estimate weights =
        estimate_weights(q, k, performer_projection(performer_features(16), 16, generator, DType::float64));
    total = total + weights.estimate;
    squares = squares + square(weights.estimate);
    exact = weights.exact;
  }
  const Tensor average = total / kDraws, variance = squares / kDraws - square(average);
  // If all directions were in a half space, as from a QR without corrected signs, this would be 10.
  const double z = std::sqrt(mean(square(average - exact) / (variance / (kDraws - 1))).item<double>());
  CHECK(z > 0.85);
  CHECK(z < 1.2);
}

TEST_CASE("performer_projection: the error of the weights falls with the root of the number of features") {
  // With 24 draws the slope is −0.50 to within 0.03 for D = 16 and for 64.
  for (const auto& [width, draws, bound] : {std::tuple<int64_t, int, double>{16, 24, 0.03}, {64, 3, 0.06}}) {
    CAPTURE(width);
    const Tensor q = normal({24, width}, 1) * 0.25, k = normal({24, width}, 2) * 0.25;
    Generator generator(5);
    double x = 0, y = 0, xx = 0, xy = 0, count = 0;
    for (int64_t features = 64; features <= 4096; features *= 4) {
      double error = 0;
      for (int i = 0; i < draws; ++i) {
        const Estimate weights =
            estimate_weights(q, k, performer_projection(features, width, generator, DType::float64));
        error += mean(square(weights.estimate / weights.exact - 1)).item<double>() / draws;
      }
      const double log_m = std::log(static_cast<double>(features)), log_error = std::log(error) / 2;
      x += log_m, y += log_error, xx += log_m * log_m, xy += log_m * log_error, count += 1;
    }
    const double slope = (xy - x * y / count) / (xx - x * x / count);
    CAPTURE(slope);
    CHECK(std::abs(slope + 0.5) < bound);
  }
}
