#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/batch_norm.h>

#include "tests/support/near.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

namespace linnet::test {
namespace {

struct NormCase {
  Shape shape;
  int64_t num_groups;  ///< of group_norm; 0 for batch_norm
};

/// Sizes that need several tasks, along pixels and along channels.
const std::vector<NormCase> kNormCases = {{{300, 70}, 0},        {{1000, 3}, 0},      {{33, 5, 3, 5}, 0},
                                          {{40, 3, 5, 7}, 0},    {{7, 2, 90, 40}, 0}, {{2, 200, 4, 4}, 0},
                                          {{3, 9000}, 3},        {{5, 12, 3}, 4},     {{3, 64, 20, 30}, 32},
                                          {{2, 6, 150, 150}, 1}, {{1, 2, 5, 5}, 0},   {{1, 8, 1, 1}, 2}};

Tensor norm_of_case(const NormCase& c, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return c.num_groups == 0 ? batch_norm(x, {}, {}, weight, bias, true) : group_norm(x, c.num_groups, weight, bias);
}

/// The result of a case and its gradients, from the kernel or, with `create_graph`, from other ops.
std::vector<Tensor> both_passes(const NormCase& c, DType dtype, bool create_graph, double shift = 0) {
  const auto leaf = [&](const Shape& shape, uint64_t seed, double add) {
    return (uniform(shape, seed).to(DType::float32) + add).to(dtype).set_requires_grad();
  };
  const Tensor x = leaf(c.shape, 1, shift), weight = leaf({c.shape[1]}, 2, 0), bias = leaf({c.shape[1]}, 3, 0);
  const Tensor y = norm_of_case(c, x, weight, bias);
  std::vector<Tensor> all =
      grad({y}, {x, weight, bias}, {.grad_outputs = {uniform(c.shape, 4).to(dtype)}, .create_graph = create_graph});
  all.insert(all.begin(), y);
  for (Tensor& t : all) t = t.detach();
  return all;
}

double largest_of(const Tensor& x) { return x.to(DType::float64).abs().max().item(); }
double difference_of(const Tensor& x, const Tensor& y) {
  return largest_of(x.to(DType::float64) - y.to(DType::float64));
}

}  // namespace

TEST_CASE("batch_norm: biased variance for normalising, unbiased for running_var") {
  const Tensor x = tensor({1, 2, 3, 6, 10, 10, 10, 30}, DType::float64).reshape({4, 2, 1});  // 1 3 10 10; 2 6 10 30
  const Tensor running_mean = tensor({1, 2}, DType::float64), running_var = tensor({3, 4}, DType::float64);
  const Tensor y = batch_norm(x, running_mean, running_var, {}, {}, true, 0.25, 0.5);
  CHECK(y[{0, 0, 0}].item() == near(-5 / std::sqrt(16.5 + 0.5)));  // mean 6, variance (25 + 9 + 16 + 16)/4
  CHECK(y[{3, 1, 0}].item() == near(18 / std::sqrt(116 + 0.5)));   // mean 12, variance (100 + 36 + 4 + 324)/4
  CHECK(running_mean.to_vector<double>() == std::vector<double>{0.75 * 1 + 0.25 * 6, 0.75 * 2 + 0.25 * 12});
  CHECK(running_var[0].item() == near(0.75 * 3 + 0.25 * 66 / 3));
  CHECK(running_var[1].item() == near(0.75 * 4 + 0.25 * 464 / 3));

  const Tensor mean = tensor({1, 2}, DType::float64), var = tensor({3, 4}, DType::float64);
  const Tensor z =
      batch_norm(x, mean, var, tensor({5, 6}, DType::float64), tensor({7, 8}, DType::float64), false, 1, 1);
  CHECK(z[{3, 0, 0}].item() == near(9 / std::sqrt(4.0) * 5 + 7));
  CHECK(z[{3, 1, 0}].item() == near(28 / std::sqrt(5.0) * 6 + 8));
  CHECK(mean.to_vector<double>() == std::vector<double>{1, 2});
  CHECK(var.to_vector<double>() == std::vector<double>{3, 4});
}

TEST_CASE("batch_norm and group_norm of large sizes are their definition") {
  for (const NormCase& c : kNormCases) {
    CAPTURE(to_string(c.shape));
    const bool batch = c.num_groups == 0;
    const Tensor x = uniform(c.shape, 1), weight = uniform({c.shape[1]}, 2), bias = uniform({c.shape[1]}, 3);
    const Shape parts = batch ? Shape{c.shape[0], c.shape[1], -1} : Shape{c.shape[0], c.num_groups, -1};
    const Shape dims = batch ? Shape{0, 2} : Shape{2};
    const Tensor of_groups = x.reshape(parts);
    const Tensor normalised = (of_groups - mean(of_groups, dims, true)) * rsqrt(var(of_groups, dims, 0, true) + 1e-5);
    const Tensor expected =
        normalised.reshape({c.shape[0], c.shape[1], -1}) * weight.unsqueeze(1) + bias.unsqueeze(1);
    CHECK(difference_of(norm_of_case(c, x, weight, bias), expected.reshape(c.shape)) < 1e-12);
  }
}

TEST_CASE("batch_norm and group_norm: gradients from the kernel are those from ops") {
  for (const NormCase& c : kNormCases) {
    CAPTURE(to_string(c.shape));
    const std::vector<Tensor> fused = both_passes(c, DType::float64, false),
                              composed = both_passes(c, DType::float64, true);
    for (size_t i = 0; i < fused.size(); ++i) {
      CAPTURE(i);
      CHECK(fused[i].shape() == composed[i].shape());
      CHECK(difference_of(fused[i], composed[i]) < 1e-12 * (1 + largest_of(composed[i])));
    }
  }
}

TEST_CASE("batch_norm and group_norm in float32 are near float64, beside a large mean too") {
  for (const NormCase& c : kNormCases) {
    for (const double shift : {0.0, 1000.0}) {
      CAPTURE(to_string(c.shape));
      CAPTURE(shift);
      const std::vector<Tensor> exact = both_passes(c, DType::float64, false, shift),
                                rounded = both_passes(c, DType::float32, false, shift);
      for (size_t i = 0; i < exact.size(); ++i) {
        CAPTURE(i);
        CHECK(difference_of(rounded[i], exact[i]) < 1e-6 * (1 + largest_of(exact[i])));
      }
    }
  }
}

TEST_CASE("batch_norm and group_norm in float64 keep their digits beside a large mean") {
  for (const NormCase& c : kNormCases) {
    CAPTURE(to_string(c.shape));
    const Tensor x = round(uniform(c.shape, 1) * 0x1p20) * 0x1p-20, weight = ones({c.shape[1]}, DType::float64);
    const Tensor bias = zeros({c.shape[1]}, DType::float64);
    // The sum is exact.
    CHECK(difference_of(norm_of_case(c, x + 0x1p20, weight, bias), norm_of_case(c, x, weight, bias)) < 1e-8);
  }
}

TEST_CASE("batch_norm and group_norm have the same bits for any number of threads") {
  for (const NormCase& c : kNormCases) {
    CAPTURE(to_string(c.shape));
    check_threads_change_no_bit([&] { return both_passes(c, DType::float32, false); });
  }
}

TEST_CASE("batch_norm and group_norm: a channel without variance gives the bias, and finite gradients") {
  for (const Shape& shape : {Shape{2, 3, 30}, Shape{5, 3}}) {
    for (const double value : {30.3, -1e-3, 12345.678}) {
      const Tensor x = full(shape, value).set_requires_grad(), bias = tensor({1, 2, 3});
      for (const Tensor& y : {batch_norm(x, {}, {}, {}, bias, true, 0.1, 1e-12), group_norm(x, 3, {}, bias, 1e-12)}) {
        CHECK(difference_of(y, zeros(shape) + bias.reshape(shape.rank() == 3 ? Shape{3, 1} : Shape{3})) == 0);
        const Tensor dx = grad({y}, {x}, {.grad_outputs = {uniform(shape, 5).to(DType::float32)}})[0];
        CHECK(std::isfinite(largest_of(dx)));
      }
    }
  }
}

TEST_CASE("batch_norm and group_norm take any strides") {
  const Tensor x = uniform({2, 5, 6, 3}, 1).permute({0, 3, 1, 2}), both = uniform({3, 2}, 2);
  const Tensor weight = both.select(1, 0), bias = both.select(1, 1), var = uniform({3, 2}, 3, 1, 2).select(1, 1);
  for (const bool training : {false, true}) {
    CHECK(same_bits(batch_norm(x, weight, var.clone(), weight, bias, false),
                    batch_norm(x.contiguous(), weight.clone(), var.clone(), weight.clone(), bias.clone(), false)));
    Tensor running = uniform({3, 2}, 4), dense = running.clone();
    batch_norm(x, running.select(1, 1), running.select(1, 0), weight, bias, training);
    batch_norm(x.contiguous(), dense.select(1, 1), dense.select(1, 0), {}, {}, training);
    CHECK(same_bits(running, dense));
  }
  CHECK(same_bits(group_norm(x, 3, weight, bias), group_norm(x.contiguous(), 3, weight.clone(), bias.clone())));
}

TEST_CASE("batch_norm: an infinity in evaluation has the gradient of the other numbers") {
  const Tensor x = tensor({1.0, std::numeric_limits<double>::infinity()}).reshape({2, 1}).set_requires_grad();
  const Tensor y = batch_norm(x, zeros({1}), full({1}, 4.0), {}, {}, false, 0.1, 0);
  CHECK(grad({y}, {x}, {.grad_outputs = {ones({2, 1})}})[0].to_vector<float>() == std::vector<float>{0.5, 0.5});
}

TEST_CASE("batch_norm: a NaN stays in its channel") {
  Tensor x = uniform({2, 2, 20}, 1);
  x.mutable_data<double>()[7] = NAN;
  const Tensor running_mean = zeros({2}, DType::float64), running_var = ones({2}, DType::float64);
  const Tensor y = batch_norm(x, running_mean, running_var, {}, {}, true);
  CHECK(isnan(y.select(1, 0)).to(DType::float64).sum().item() == 40);
  CHECK(isnan(y.select(1, 1)).to(DType::float64).sum().item() == 0);
  CHECK(std::isnan(running_mean[0].item()));
  CHECK(std::isnan(running_var[0].item()));
  CHECK(std::isfinite(running_var[1].item()));
}

TEST_CASE("batch_norm says what is wrong, and leaves the running statistics alone") {
  const Tensor x = uniform({2, 3, 8, 8}, 1), rows = uniform({3}, 2), var = uniform({3}, 3, 1, 2);
  const Where at{"a.cpp", 1};
  const auto trained = [&](const Tensor& input, const Tensor& weight = {}) {
    return batch_norm(input, rows, var, weight, {}, true, 0.1, 1e-5, at);
  };
  const std::vector<double> before = rows.to_vector<double>();
  CHECK_THROWS_WITH_AS(
      trained(x.permute({0, 2, 3, 1})),
      "batch_norm: running_mean[3] does not fit x[2, 8, 8, 3]: it must be [8], one number for each channel; channels "
      "come second: did you mean permute(x, {0, 3, 1, 2})? (a.cpp:1)",
      ShapeError);
  CHECK_THROWS_WITH_AS(trained(uniform({2, 9, 3}, 1)), doctest::Contains("did you mean transpose(x, 1, 2)?"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(
      trained(x, uniform({4}, 1)),
      "batch_norm: weight[4] does not fit x[2, 3, 8, 8]: it must be [3], one number for each channel "
      "(a.cpp:1)",
      ShapeError);
  CHECK_THROWS_WITH_AS(
      trained(uniform({1, 3, 1, 1}, 1)),
      "batch_norm: x[1, 3, 1, 1] has one value for each channel, and training needs two or more for a "
      "variance: take a larger batch, or normalise by running_mean and running_var, as layers do "
      "after eval() (a.cpp:1)",
      ValueError);
  CHECK_THROWS_WITH_AS(trained(zeros({0, 3}, DType::float64)), doctest::Contains("has no value for each channel"),
                       ValueError);
  CHECK_THROWS_WITH_AS(batch_norm(x, {}, var, {}, {}, false, 0.1, 1e-5, at),
                       "batch_norm: running_mean and running_var are needed unless training is true (a.cpp:1)",
                       ValueError);
  CHECK_THROWS_WITH_AS(batch_norm(x, rows, var.clone().set_requires_grad(), {}, {}, false, 0.1, 1e-5, at),
                       "batch_norm: running_mean and running_var have no gradient: detach() them (a.cpp:1)",
                       AutogradError);
  CHECK_THROWS_AS(trained(uniform({3}, 1)), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, rows, var, {}, zeros({2, 3}, DType::float64), true), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, rows, zeros({4}, DType::float64), {}, {}, true), ShapeError);
  CHECK_THROWS_AS(batch_norm(x, rows, var, {}, {}, true, 0.1, -1), ValueError);
  CHECK_THROWS_AS(trained(x.to(DType::float32)), DTypeError);
  CHECK_THROWS_AS(batch_norm(x.to(DType::int64), {}, {}, {}, {}, true), DTypeError);
  CHECK(rows.to_vector<double>() == before);
}

TEST_CASE("group_norm says what is wrong") {
  const Tensor x = uniform({2, 6, 8, 8}, 1);
  const Where at{"a.cpp", 1};
  CHECK_THROWS_WITH_AS(group_norm(x, 4, {}, {}, 1e-5, at),
                       "group_norm: the 6 channels of x[2, 6, 8, 8] cannot be divided into 4 groups: num_groups must "
                       "divide 6 (a.cpp:1)",
                       ValueError);
  CHECK_THROWS_WITH_AS(group_norm(x.permute({0, 2, 3, 1}), 2, zeros({6}, DType::float64), {}, 1e-5, at),
                       doctest::Contains("did you mean permute(x, {0, 3, 1, 2})?"), ShapeError);
  CHECK_THROWS_AS(group_norm(x, 0), ValueError);
  CHECK_THROWS_AS(group_norm(x, 2, {}, zeros({2}, DType::float64)), ShapeError);
  CHECK_THROWS_AS(group_norm(x, 2, {}, {}, -1), ValueError);
  CHECK_THROWS_AS(group_norm(scalar(1), 1), ShapeError);
  CHECK_THROWS_AS(group_norm(x.to(DType::int64), 2), DTypeError);
}

}  // namespace linnet::test
