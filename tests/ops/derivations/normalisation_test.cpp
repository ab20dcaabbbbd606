#include <doctest/doctest.h>

#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/layers/batch_norm.h>
#include <linnet/ops/layers/normalisation.h>

#include "tests/ops/derivations/derivation.h"

// The numbers are those of the steps in ops/layers/normalisation_gradient.md. Step 8, the standardisation, is in
// fastmax_test.cpp.

using namespace linnet;
using namespace linnet::test;

namespace {

constexpr int64_t kRows = 7, kWidth = 9;
constexpr double kEps = 1e-2;

struct NormCase {
  Tensor x = uniform({kRows, kWidth}, 1, -1, 3), dy = uniform({kRows, kWidth}, 2);
  Tensor weight = uniform({kWidth}, 3), bias = uniform({kWidth}, 4);
};

Tensor variance(const Tensor& x) { return mean(square(x - mean(x, {-1}, true)), {-1}, true); }

}  // namespace

TEST_CASE("derivations: the gradient of layer norm") {
  const NormCase in;
  const Tensor mu = mean(in.x, {-1}, true), rho = rsqrt(variance(in.x) + kEps), x_hat = (in.x - mu) * rho;
  const auto gradient_by = [&](const Tensor& of, auto norm) {
    return tape_gradient(of, [&](const Tensor& x) { return loss_of(norm(x), in.dy); });
  };
  check_step("(1) of the weight", sum(in.dy * x_hat, {0}),
             gradient_by(in.weight, [&](const Tensor& w) { return layer_norm(in.x, w, in.bias, kEps); }));
  check_step("(1) of the bias", sum(in.dy, {0}),
             gradient_by(in.bias, [&](const Tensor& b) { return layer_norm(in.x, in.weight, b, kEps); }));
  const Tensor g = in.weight * in.dy;
  check_step("(2)", g, gradient_by(x_hat, [&](const Tensor& x) { return x * in.weight + in.bias; }));

  check_step("(3) of the mean", full({kRows, kWidth}, 1.0 / kWidth, DType::float64),
             tape_gradient(in.x, [&](const Tensor& x) { return sum(mean(x, {-1})); }));
  check_step("(3) of the variance", 2.0 / kWidth * (in.x - mu),
             tape_gradient(in.x, [&](const Tensor& x) { return sum(variance(x)); }));
  check_step("(4)", neg(square(rho)) / kWidth * x_hat,
             tape_gradient(in.x, [&](const Tensor& x) { return sum(rsqrt(variance(x) + kEps)); }));
  // The Jacobian [c, e] of row 2, computed row by row with the tape.
  const Tensor row = x_hat.select(0, 2);
  const Tensor jacobian = rho.select(0, 2) * (eye(kWidth, -1, DType::float64) - 1.0 / kWidth -
                                              row.unsqueeze(1) * row.unsqueeze(0) / kWidth);
  std::vector<Tensor> rows;
  for (int64_t c = 0; c < kWidth; ++c) {
    rows.push_back(tape_gradient(in.x.select(0, 2), [&](const Tensor& x) {
      return ((x - mean(x)) * rsqrt(mean(square(x - mean(x))) + kEps)).select(0, c);
    }));
  }
  check_step("(5)", jacobian, stack(rows));
  check_step("(6)", rho * (g - mean(g, {-1}, true) - x_hat * mean(g * x_hat, {-1}, true)),
             gradient_by(in.x, [&](const Tensor& x) { return layer_norm(x, in.weight, in.bias, kEps); }));
}

TEST_CASE("derivations: the gradient of RMS norm") {
  const NormCase in;
  const Tensor rho = rsqrt(mean(square(in.x), {-1}, true) + kEps), x_hat = in.x * rho, g = in.weight * in.dy;
  check_step("(7)", rho * (g - x_hat * mean(g * x_hat, {-1}, true)),
             tape_gradient(in.x, [&](const Tensor& x) { return loss_of(rms_norm(x, in.weight, kEps), in.dy); }));
  check_step("(1) of the weight", sum(in.dy * x_hat, {0}),
             tape_gradient(in.weight, [&](const Tensor& w) { return loss_of(rms_norm(in.x, w, kEps), in.dy); }));
}

TEST_CASE("derivations: the gradients of batch norm and group norm") {
  const Tensor x = uniform({4, 6, 5}, 1, -1, 3), dy = uniform({4, 6, 5}, 2);  // images, channels, pixels
  const Tensor weight = uniform({6}, 3), bias = uniform({6}, 4), w = weight.reshape({6, 1}), g = w * dy;
  const auto check_norm = [&](auto mean_of, auto norm) {
    const Tensor mu = mean_of(x), rho = rsqrt(mean_of(square(x - mu)) + kEps), normalised = (x - mu) * rho;
    check_step("(9)", rho * (g - mean_of(g) - normalised * mean_of(g * normalised)),
               tape_gradient(x, [&](const Tensor& of) { return loss_of(norm(of), dy); }));
  };
  check_norm([](const Tensor& t) { return mean(t, {0, 2}, true); },
             [&](const Tensor& of) { return batch_norm(of, {}, {}, weight, bias, true, 0.1, kEps); });
  const auto mean_of_group = [](const Tensor& t) {
    return mean(t.reshape({4, 2, 3, 5}), {2, 3}, true).expand({4, 2, 3, 5}).reshape({4, 6, 5});
  };
  check_norm(mean_of_group, [&](const Tensor& of) { return group_norm(of, 2, weight, bias, kEps); });
  const Tensor centred = x - mean_of_group(x), x_hat = centred * rsqrt(mean_of_group(square(centred)) + kEps);
  const auto mean_by_channels = [&](const Tensor& of) {
    return sum((weight * sum(of, {2})).reshape({4, 2, 3}), {2}) / 15;
  };
  check_step("(9), the mean of g by channels", mean_by_channels(dy), mean(g.reshape({4, 2, 15}), {2}));
  check_step("(9), that of g and x̂", mean_by_channels(dy * x_hat), mean((g * x_hat).reshape({4, 2, 15}), {2}));

  const Tensor running_mean = uniform({6}, 5), running_var = uniform({6}, 6, 1, 2);
  check_step("(10)", rsqrt(running_var + kEps).reshape({6, 1}) * g, tape_gradient(x, [&](const Tensor& of) {
               return loss_of(batch_norm(of, running_mean, running_var, weight, bias, false, 0.1, kEps), dy);
             }));
}
