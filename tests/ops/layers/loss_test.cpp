#include <algorithm>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/layers/loss.h>

#include "tests/support/same_bits.h"

namespace linnet {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor labels(std::vector<int64_t> values) { return tensor(values); }

}  // namespace

TEST_CASE("cross_entropy is −log of the target's probability") {
  const Tensor logits = tensor({1, 2, 3, 0, 0, 0}, {2, 3}, DType::float64);
  const double first = std::log(std::exp(-1.0) + 1 + std::exp(1.0)), second = std::log(3.0);
  const std::vector<double> rows =
      cross_entropy(logits, labels({1, 2}), {.reduction = Reduction::none}).to_vector<double>();
  CHECK(rows[0] == doctest::Approx(first).epsilon(1e-14));
  CHECK(rows[1] == doctest::Approx(second).epsilon(1e-14));
  CHECK(cross_entropy(logits, labels({1, 2})).item<double>() == doctest::Approx((first + second) / 2).epsilon(1e-14));
  CHECK(cross_entropy(logits, tensor(std::vector<int32_t>{1, 2}), {.reduction = Reduction::sum}).item<double>() ==
        doctest::Approx(first + second).epsilon(1e-14));
  CHECK(cross_entropy(logits, labels({1, 2}), {.label_smoothing = 1}).item<double>() ==
        doctest::Approx((first + second) / 2).epsilon(1e-14));  // each row's target is also its mean
}

TEST_CASE("cross_entropy is stable, and takes classes that are ruled out") {
  CHECK(cross_entropy(tensor({1000, 0}), scalar(0, DType::int64)).item<float>() == 0);
  CHECK(cross_entropy(tensor({1000, 0}), scalar(1, DType::int64)).item<float>() == 1000);
  Tensor logits = tensor({0, 0, -kInfinity}).set_requires_grad();
  const Tensor loss = cross_entropy(logits, scalar(0, DType::int64));
  CHECK(loss.item<float>() == doctest::Approx(std::log(2.0)));
  CHECK(grad({loss}, {logits})[0].to_vector<float>() == std::vector<float>{-0.5f, 0.5f, 0});
  CHECK(cross_entropy(logits, scalar(2, DType::int64)).item<float>() == kInfinity);
  CHECK(cross_entropy(logits, scalar(0, DType::int64), {.label_smoothing = 0.1}).item<float>() == kInfinity);
}

TEST_CASE("cross_entropy carries NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Tensor& values : {tensor({0, nan, 1}), tensor({-kInfinity, -kInfinity, -kInfinity})}) {
    const Tensor logits = values.detach().set_requires_grad();
    const Tensor loss = cross_entropy(logits, scalar(0, DType::int64));
    CHECK(std::isnan(loss.item<float>()));
    for (const float slope : grad({loss}, {logits})[0].to_vector<float>()) CHECK(std::isnan(slope));
  }
}

TEST_CASE("cross_entropy keeps the digits of differences between large logits") {
  struct Row {
    std::vector<double> logits;
    double smoothing, loss;
    std::vector<double> gradient;  ///< for target 0
  };
  const double third = 1.0 / 3, tail = std::exp(-10.0), few = tail / (1 + tail);
  for (const Row& row :
       {Row{{1e7, 1e7}, 0, std::log(2.0), {-0.5, 0.5}}, Row{{-1e7, -1e7}, 0, std::log(2.0), {-0.5, 0.5}},
        Row{{1000, 1000, 1000}, 0, std::log(3.0), {third - 1, third, third}},
        Row{{10000, 9990}, 0, std::log1p(tail), {-few, few}}, Row{{1e7, 1e7}, 0.1, std::log(2.0), {-0.45, 0.45}},
        Row{{10000, 9990}, 0.5, std::log1p(tail) + 2.5, {0.25 - few, few - 0.25}}}) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      CAPTURE(row.logits[0]);
      CAPTURE(row.smoothing);
      const Tensor logits = tensor(row.logits).to(dtype).set_requires_grad();
      const Tensor loss = cross_entropy(logits, scalar(0, DType::int64), {.label_smoothing = row.smoothing});
      const std::vector<double> gradient = grad({loss}, {logits})[0].to_vector<double>();
      CHECK(std::abs(loss.item<double>() - row.loss) <= 2e-7 * std::max(1.0, row.loss));
      for (size_t c = 0; c < gradient.size(); ++c) CHECK(std::abs(gradient[c] - row.gradient[c]) <= 2e-7);
    }
  }
}

TEST_CASE("cross_entropy leaves ignored rows out of loss, mean and gradient") {
  Tensor logits = tensor({0, 0, 5, 9}, {2, 2}).set_requires_grad();
  const Tensor loss = cross_entropy(logits, labels({0, -100}));
  CHECK(loss.item<float>() == doctest::Approx(std::log(2.0)));
  CHECK(grad({loss}, {logits})[0].to_vector<float>() == std::vector<float>{-0.5f, 0.5f, 0, 0});
  CHECK(std::isnan(cross_entropy(logits, labels({-100, -100})).item<float>()));
  CHECK(std::isnan(cross_entropy(zeros({0, 3}), zeros({0}, DType::int64)).item<float>()));
}

TEST_CASE("cross_entropy has the same bits for any number of threads") {
  Generator generator(9);
  const Tensor logits = randn({3000, 65}, generator).set_requires_grad();
  const Tensor targets = randint(0, 65, {3000}, generator);
  test::check_threads_change_no_bit([&] {
    const Tensor loss = cross_entropy(logits, targets, {.label_smoothing = 0.1});
    return std::vector<Tensor>{grad({loss}, {logits})[0], loss};
  });
}

TEST_CASE("cross_entropy says what does not fit") {
  const Tensor logits = zeros({2, 3});
  CHECK_THROWS_WITH_AS(cross_entropy(logits, labels({0, 3})),
                       doctest::Contains("cross_entropy: target 3 of row 1 is not a class: there are 3"), IndexError);
  CHECK_THROWS_AS(cross_entropy(logits, labels({-1, 0})), IndexError);
  CHECK_THROWS_WITH_AS(cross_entropy(logits, labels({0})), doctest::Contains("logits[2, 3] ask for targets[2]"),
                       ShapeError);
  CHECK_THROWS_AS(cross_entropy(scalar(1), scalar(0, DType::int64)), ShapeError);
  CHECK_THROWS_AS(cross_entropy(logits, zeros({2})), DTypeError);
  CHECK_THROWS_AS(cross_entropy(zeros({2, 3}, DType::int64), labels({0, 0})), DTypeError);
  CHECK_THROWS_AS(cross_entropy(logits, labels({0, 0}), {.label_smoothing = 1.5}), ValueError);
}

TEST_CASE("cross_entropy refuses a second derivative") {
  const Tensor logits = zeros({2, 3}).set_requires_grad();
  CHECK_THROWS_WITH_AS(grad({cross_entropy(logits, labels({0, 1}))}, {logits}, {.create_graph = true}),
                       doctest::Contains("it is fused"), AutogradError);
}

TEST_CASE("mse_loss is the mean square of the differences") {
  const Tensor a = tensor({1, 2, 3}), b = tensor({1, 0, 6});
  CHECK(mse_loss(a, b).item<float>() == doctest::Approx(13.0 / 3));
  CHECK(mse_loss(a, b, Reduction::sum).item<float>() == 13);
  CHECK(mse_loss(a, b, Reduction::none).to_vector<float>() == std::vector<float>{0, 4, 9});
  CHECK_THROWS_WITH_AS(mse_loss(a, zeros({3, 1})), doctest::Contains("input[3] and target[3, 1] must have one shape"),
                       ShapeError);
  const Tensor whole = tensor({1, 2, 3}, DType::int64);
  CHECK_THROWS_WITH_AS(
      mse_loss(whole, whole, Reduction::sum),
      doctest::Contains("mse_loss: takes floating tensors, not int64; convert with to(DType::float32)"), DTypeError);
  CHECK_THROWS_AS(mse_loss(a, whole), DTypeError);
}

TEST_CASE("binary_cross_entropy_with_logits is stable and weighs positives") {
  const Tensor logits = tensor({0, 100, -100}), targets = tensor({1, 0, 1});
  const std::vector<float> losses =
      binary_cross_entropy_with_logits(logits, targets, {}, Reduction::none).to_vector<float>();
  CHECK(losses[0] == doctest::Approx(std::log(2.0)));
  CHECK(losses[1] == 100);
  CHECK(losses[2] == 100);
  CHECK(binary_cross_entropy_with_logits(logits, targets, scalar(3), Reduction::sum).item<float>() ==
        doctest::Approx(3 * std::log(2.0) + 100 + 300));
  CHECK_THROWS_AS(binary_cross_entropy_with_logits(logits, zeros({2})), ShapeError);
  CHECK_THROWS_WITH_AS(binary_cross_entropy_with_logits(logits, targets, zeros({2, 3})),
                       doctest::Contains("pos_weight[2, 3] does not broadcast"), ShapeError);
}

TEST_CASE("accuracy is the share of rows that are right") {
  const Tensor logits = tensor({1, 2, 3, 1, 0, 0}, {3, 2});
  CHECK(accuracy(logits, labels({1, 0, 0})) == 1);
  CHECK(accuracy(logits, labels({1, 1, 1})) == doctest::Approx(1.0 / 3));
  CHECK(std::isnan(accuracy(zeros({0, 2}), zeros({0}, DType::int64))));
  CHECK_THROWS_AS(accuracy(logits, labels({0})), ShapeError);
}

}  // namespace linnet
