#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/loss.h>
#include <linnet/ops/layers/softmax.h>

#include "tests/support/same_bits.h"

namespace linnet {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

Tensor labels(std::vector<int64_t> values) { return tensor(values); }

bool are_close(const Tensor& x, const std::vector<double>& expected) {
  return allclose(x.flatten(), tensor(expected).to(x.dtype()), 1e-6);
}

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

TEST_CASE("nll_loss of log_softmax is cross_entropy, and weighs classes") {
  const Tensor logits = tensor({1, 2, 3, 0, 0, 0}, {2, 3}, DType::float64), log_probs = log_softmax(logits, -1);
  for (const Reduction reduction : {Reduction::none, Reduction::mean, Reduction::sum}) {
    CHECK(allclose(nll_loss(log_probs, labels({1, 2}), {.reduction = reduction}),
                   cross_entropy(logits, labels({1, 2}), {.reduction = reduction}), 1e-14));
  }
  const Tensor weight = tensor({5, 1, 3}, DType::float64);
  const Tensor rows = nll_loss(log_probs, labels({1, 2}), {.weight = weight, .reduction = Reduction::none});
  CHECK(rows[0].item() == doctest::Approx(-log_probs[{0, 1}].item()));
  CHECK(rows[1].item() == doctest::Approx(-3 * log_probs[{1, 2}].item()));
  CHECK(nll_loss(log_probs, labels({1, 2}), {.weight = weight}).item() == doctest::Approx(sum(rows).item() / 4));
  CHECK(nll_loss(log_probs[0], scalar(2, DType::int32)).item() == doctest::Approx(-log_probs[{0, 2}].item()));
}

TEST_CASE("nll_loss leaves out ignored rows, and classes that are ruled out") {
  Tensor log_probs = tensor({-1, -kInfinity, -2, -3}, {2, 2}).set_requires_grad();
  const Tensor loss = nll_loss(log_probs, labels({0, -100}));
  CHECK(loss.item<float>() == 1);
  CHECK(grad({loss}, {log_probs})[0].to_vector<float>() == std::vector<float>{-1, 0, 0, 0});
  CHECK(nll_loss(log_probs, labels({1, 0}), {.reduction = Reduction::none}).to_vector<float>() ==
        std::vector<float>{kInfinity, 2});
  CHECK(nll_loss(log_probs, labels({0, 1}), {.ignore_index = 1}).item<float>() == 1);
  CHECK(std::isnan(nll_loss(log_probs, labels({-100, -100})).item<float>()));
  CHECK(nll_loss(zeros({2, 0}), labels({-100, -100}), {.reduction = Reduction::sum}).item<float>() == 0);
}

TEST_CASE("nll_loss of int32 targets takes an ignore_index beyond int32") {
  const Tensor log_probs = log_softmax(tensor({{1.0, 2.0, 4.0}, {3.0, 1.0, 0.5}}), -1);
  const double wanted = nll_loss(log_probs, tensor<int64_t>({1, 2})).item();
  CHECK(nll_loss(log_probs, tensor<int32_t>({1, 2}), {.ignore_index = INT64_MIN}).item() == wanted);
}

TEST_CASE("nll_loss says what does not fit") {
  const Tensor log_probs = zeros({2, 3});
  CHECK_THROWS_WITH_AS(
      nll_loss(log_probs, zeros({2})),
      doctest::Contains("targets must be int64 or int32, not float32; convert with to(DType::int64)"), DTypeError);
  CHECK_THROWS_WITH_AS(
      nll_loss(log_probs, labels({0})),
      doctest::Contains("log_probs[2, 3] ask for targets[2], one class each, but targets have shape [1]"),
      ShapeError);
  CHECK_THROWS_WITH_AS(nll_loss(log_probs, labels({0, 3})), doctest::Contains("target 3 of row 1 is not a class"),
                       IndexError);
  CHECK_THROWS_WITH_AS(nll_loss(scalar(1), scalar(0, DType::int64)),
                       doctest::Contains("log_probs must be [..., C], but have rank 0"), ShapeError);
  CHECK_THROWS_WITH_AS(nll_loss(zeros({2, 3}, DType::int64), labels({0, 0})),
                       doctest::Contains("log_probs must be floating, not int64"), DTypeError);
  CHECK_THROWS_WITH_AS(nll_loss(log_probs, labels({0, 1}), {.weight = zeros({2})}),
                       doctest::Contains("weight[2] must have one factor for each class of log_probs[2, 3]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(nll_loss(log_probs, labels({0, 1}), {.reduction = Reduction::batchmean}),
                       doctest::Contains("batchmean is for kl_div alone; take mean"), ValueError);
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

TEST_CASE("l1_loss, huber_loss and smooth_l1_loss of differences") {
  const Tensor input = tensor({0, 0.5, -1, 3}), target = zeros({4});
  const auto each = [&](const Tensor& losses) { return losses.to_vector<float>(); };
  CHECK(each(l1_loss(input, target, Reduction::none)) == std::vector<float>{0, 0.5, 1, 3});
  CHECK(each(huber_loss(input, target, Reduction::none)) == std::vector<float>{0, 0.125, 0.5, 2.5});
  CHECK(each(huber_loss(input, target, Reduction::none, 2)) == std::vector<float>{0, 0.125, 0.5, 4});
  CHECK(each(smooth_l1_loss(input, target, Reduction::none, 2)) == std::vector<float>{0, 0.0625, 0.25, 2});
  CHECK(each(smooth_l1_loss(input, target, Reduction::none, 0)) == std::vector<float>{0, 0.5, 1, 3});
  CHECK(l1_loss(input, target).item<float>() == 1.125);
  CHECK(huber_loss(input, target, Reduction::sum).item<float>() == 3.125);

  Tensor far = tensor({-kInfinity, 1, kInfinity}).set_requires_grad();
  const Tensor slopes = grad({huber_loss(far, zeros({3}), Reduction::sum)}, {far})[0];
  CHECK(each(slopes) == std::vector<float>{-1, 1, 1});

  CHECK_THROWS_WITH_AS(l1_loss(input, zeros({4, 1})),
                       doctest::Contains("input[4] and target[4, 1] must have one shape"), ShapeError);
  CHECK_THROWS_WITH_AS(
      l1_loss(input, labels({1, 2, 3, 4})),
      doctest::Contains("l1_loss: takes floating tensors, not int64; convert with to(DType::float32)"), DTypeError);
  CHECK_THROWS_WITH_AS(huber_loss(input, target, Reduction::mean, 0),
                       doctest::Contains("delta is 0; it must be above 0"), ValueError);
  CHECK_THROWS_WITH_AS(smooth_l1_loss(input, target, Reduction::mean, -1),
                       doctest::Contains("beta is -1; it must be 0 or more"), ValueError);
  CHECK_THROWS_AS(huber_loss(input, target, Reduction::mean, std::nan("")), ValueError);
  CHECK_THROWS_AS(huber_loss(input, zeros({2})), ShapeError);
  CHECK_THROWS_AS(smooth_l1_loss(input, zeros({2})), ShapeError);
}

TEST_CASE("kl_div: the divergence is its batchmean, and a target of 0 counts 0") {
  const Tensor p = tensor({0.5, 0.5, 1, 0}, {2, 2}, DType::float64),
               q = tensor({0.25, 0.75, 0.5, 0.5}, {2, 2}, DType::float64);
  const double first = 0.5 * std::log(0.5 / 0.25) + 0.5 * std::log(0.5 / 0.75), second = std::log(1 / 0.5);
  CHECK(kl_div(log(q), p, Reduction::batchmean).item() == doctest::Approx((first + second) / 2));
  CHECK(kl_div(log(q), p).item() == doctest::Approx((first + second) / 4));
  CHECK(kl_div(log(q), p, Reduction::none)[{1, 1}].item() == 0);
  CHECK(kl_div(log(p + 0.5), log(q), Reduction::sum, true).item() ==
        doctest::Approx(kl_div(log(p + 0.5), q, Reduction::sum).item()));
  CHECK(kl_div(scalar(-1), scalar(1), Reduction::batchmean).item() == 1);
  Tensor leaf = p.clone().set_requires_grad();
  const Tensor slopes = grad({kl_div(log(q), leaf, Reduction::sum)}, {leaf})[0];
  CHECK(slopes[{1, 1}].item() == doctest::Approx(-std::log(0.5)));  // of −target·input
  for (const bool log_target : {false, true}) {  // the input is −∞ at the target of 0, and elsewhere
    Tensor x = log(tensor({0, 0.5, 0})).set_requires_grad();
    Tensor t = (log_target ? log(tensor({0, 1, 0})) : tensor({0, 1, 0})).set_requires_grad();
    const Tensor loss = kl_div(x, t, Reduction::sum, log_target);
    CHECK(loss.item() == doctest::Approx(std::log(2)));
    CHECK(grad({loss}, {x}, {.retain = true})[0].to_vector<float>() == std::vector<float>{0, -1, 0});
    CHECK(all(isfinite(grad({loss}, {t})[0])).item<bool>());
  }
  CHECK(kl_div(scalar(-kInfinity), scalar(1)).item() == kInfinity);

  CHECK_THROWS_WITH_AS(
      kl_div(q, labels({0, 1})),
      doctest::Contains("kl_div: target must be probabilities, not int64; for classes use nll_loss, or "
                        "one_hot(target, classes, input.dtype()) as the target"),
      DTypeError);
  CHECK_THROWS_WITH_AS(kl_div(q, p[0]), doctest::Contains("input[2, 2] and target[2] must have one shape"),
                       ShapeError);
  CHECK_THROWS_AS(kl_div(labels({0, 1}), p[0]), DTypeError);
}

TEST_CASE("gaussian_nll_loss is −log of the normal density, with the variances of all, rows or columns") {
  const Tensor input = tensor({1, 2, 3, 4, 5, 6}, {2, 3}, DType::float64), target = input + 2;
  const Tensor var = full({2, 3}, 4, DType::float64);
  const double loss = (std::log(4.0) + 1) / 2, density = std::exp(-0.5) / std::sqrt(2 * std::numbers::pi * 4);
  CHECK(gaussian_nll_loss(input, target, var).item() == doctest::Approx(loss));
  CHECK(gaussian_nll_loss(input, target, var, {.full = true}).item() == doctest::Approx(-std::log(density)));
  CHECK(gaussian_nll_loss(input, target, var, {.reduction = Reduction::sum}).item() == doctest::Approx(6 * loss));
  for (const Shape& shape : {Shape{2}, Shape{2, 1}, Shape{1, 3}, Shape{1, 1}}) {
    CAPTURE(shape);
    CHECK(gaussian_nll_loss(input, target, full(shape, 4, DType::float64), {.reduction = Reduction::sum}).item() ==
          doctest::Approx(6 * loss));
  }
  CHECK(gaussian_nll_loss(scalar(1), scalar(3), scalar(4)).item() == doctest::Approx(loss));

  const Tensor rows = tensor({1, 4}, DType::float64);
  CHECK(gaussian_nll_loss(input, target, rows, {.reduction = Reduction::none})[{0, 2}].item() == doctest::Approx(2));

  // A variance below eps counts as eps, but keeps its gradient.
  Tensor small = zeros({1}, DType::float64).set_requires_grad();
  const Tensor one = ones({1}, DType::float64), at_eps = gaussian_nll_loss(one, one, small, {.eps = 0.25});
  CHECK(at_eps.item() == doctest::Approx(std::log(0.25) / 2));
  CHECK(grad({at_eps}, {small})[0].item() == doctest::Approx(2));

  CHECK_THROWS_WITH_AS(
      gaussian_nll_loss(input, target, zeros({3}, DType::float64)),
      doctest::Contains("var[3] must have the shape of input[2, 3], or sizes of 1 in it, or no last dim"),
      ShapeError);
  CHECK_THROWS_AS(gaussian_nll_loss(input, target, zeros({2, 2}, DType::float64)), ShapeError);
  CHECK_THROWS_AS(gaussian_nll_loss(input, target, zeros({1, 2, 3}, DType::float64)), ShapeError);
  CHECK_THROWS_AS(gaussian_nll_loss(input, target[0], var), ShapeError);
  CHECK_THROWS_WITH_AS(gaussian_nll_loss(input, target, ones({2, 3}, DType::int64)),
                       doctest::Contains("takes floating tensors, not int64"), DTypeError);
  CHECK_THROWS_WITH_AS(gaussian_nll_loss(input, target, -var),
                       doctest::Contains("var has a negative element; exp() or softplus()"), ValueError);
}

TEST_CASE("cosine_similarity and cosine_embedding_loss") {
  const Tensor x = tensor({1, 0, 3, 4}, {2, 2}), y = tensor({0, 2, 4, 3}, {2, 2});
  CHECK(allclose(cosine_similarity(x, y), tensor({0, 0.96})));
  CHECK(allclose(cosine_similarity(x, y, 0), tensor({12 / std::sqrt(160.), 12 / std::sqrt(208.)})));
  CHECK(allclose(cosine_similarity(x, tensor({1, 1})), tensor({std::sqrt(0.5), 7 / std::sqrt(50.)})));
  CHECK(cosine_similarity(zeros({2}), ones({2}), 0).item() == 0);
  CHECK(cosine_similarity(tensor({1e-3}), tensor({1}), 0, 1e-2).item() == doctest::Approx(0.1));

  const Tensor signs = labels({1, -1});
  CHECK(allclose(cosine_embedding_loss(x, y, signs, 0, Reduction::none), tensor({1, 0.96})));
  CHECK(allclose(cosine_embedding_loss(x, y, signs, 0.5), scalar(0.73)));
  CHECK(allclose(cosine_embedding_loss(x, y, signs, 0.97, Reduction::sum), scalar(1)));
  CHECK(allclose(cosine_embedding_loss(x[1], y[1], scalar(1)), scalar(0.04)));

  CHECK_THROWS_WITH_AS(cosine_similarity(x, zeros({3})), doctest::Contains("do not broadcast"), ShapeError);
  CHECK_THROWS_WITH_AS(cosine_similarity(x[0], y[0]), doctest::Contains("dim 1 does not exist"), ShapeError);
  CHECK_THROWS_AS(cosine_similarity(x, ones({2, 2}, DType::int64)), DTypeError);
  CHECK_THROWS_WITH_AS(cosine_embedding_loss(x, y, labels({1, 0})),
                       doctest::Contains("target 0 is neither 1, for pairs that belong together, nor -1; "
                                         "2 * target - 1 turns 1 and 0 into these"),
                       ValueError);
  CHECK_THROWS_WITH_AS(cosine_embedding_loss(x, y, labels({1})),
                       doctest::Contains("x1[2, 2] must be [..., D] and target[1] [...], one for each vector"),
                       ShapeError);
  CHECK_THROWS_AS(cosine_embedding_loss(scalar(1), scalar(1), scalar(1)), ShapeError);
  CHECK_THROWS_WITH_AS(cosine_embedding_loss(x, y[0], signs), doctest::Contains("x1[2, 2] and x2[2]"), ShapeError);
}

TEST_CASE("hinge_embedding_loss draws pairs together and others apart") {
  const Tensor distances = tensor({0.5, 0.5, 3, 1}), signs = tensor({1, -1, -1, -1});
  CHECK(hinge_embedding_loss(distances, signs, 1, Reduction::none).to_vector<float>() ==
        std::vector<float>{0.5, 0.5, 0, 0});
  CHECK(hinge_embedding_loss(distances, labels({1, -1, -1, -1}), 4).item() ==
        doctest::Approx((0.5 + 3.5 + 1 + 3) / 4));
  Tensor leaf = distances.clone().set_requires_grad();
  CHECK(grad({hinge_embedding_loss(leaf, signs, 1, Reduction::sum)}, {leaf})[0].to_vector<float>() ==
        std::vector<float>{1, -1, 0, -1});
  CHECK_THROWS_WITH_AS(hinge_embedding_loss(distances, zeros({4}) > 0), doctest::Contains("target 0 is neither 1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(hinge_embedding_loss(distances, tensor({1, 0, 1, 0})),
                       doctest::Contains("target 0 is neither 1"), ValueError);
  CHECK_THROWS_AS(hinge_embedding_loss(distances, ones({1})), ShapeError);
  CHECK_THROWS_AS(hinge_embedding_loss(labels({1}), ones({1})), DTypeError);
}

TEST_CASE("binary_cross_entropy_with_logits is stable and weighs losses and positives") {
  const Tensor logits = tensor({0, 100, -100}), targets = tensor({1, 0, 1});
  const std::vector<float> losses =
      binary_cross_entropy_with_logits(logits, targets, {.reduction = Reduction::none}).to_vector<float>();
  CHECK(losses[0] == doctest::Approx(std::log(2.0)));
  CHECK(losses[1] == 100);
  CHECK(losses[2] == 100);
  CHECK(binary_cross_entropy_with_logits(logits, targets, {.pos_weight = scalar(3), .reduction = Reduction::sum})
            .item() == doctest::Approx(3 * std::log(2.0) + 100 + 300));
  CHECK_THROWS_AS(binary_cross_entropy_with_logits(logits, zeros({2})), ShapeError);
  CHECK_THROWS_WITH_AS(binary_cross_entropy_with_logits(logits, targets, {.pos_weight = zeros({2, 3})}),
                       doctest::Contains("pos_weight[2, 3] does not broadcast"), ShapeError);
  CHECK_THROWS_WITH_AS(binary_cross_entropy_with_logits(logits, targets, {.weight = zeros({2, 3})}),
                       doctest::Contains("weight[2, 3] does not broadcast to the shape of targets[3]"), ShapeError);

  // PyTorch's numbers. The first option is `weight`, which is PyTorch's third argument; the mean still divides by 6.
  const Tensor x = tensor({{0.5, -1, 2}, {0.25, 3, -0.75}}), t = tensor({{1, 0, 0.25}, {0, 1, 1}});
  const Tensor weight = tensor({1, 2, 0.5}), pos_weight = tensor({3, 1, 2});
  CHECK(are_close(binary_cross_entropy_with_logits(x, t, {.weight = weight, .reduction = Reduction::none}),
                  {0.47407699, 0.62652349, 0.81346399, 0.82593942, 0.09717470, 0.56843549}));
  CHECK(binary_cross_entropy_with_logits(x, t, {weight}).item() == doctest::Approx(0.56760234));
  CHECK(binary_cross_entropy_with_logits(x, t, {weight, pos_weight}).item() == doctest::Approx(0.82301158));
}

TEST_CASE("binary_cross_entropy is PyTorch's, at probabilities of 0 and 1 too") {
  const std::vector<double> p{0, 0, 1, 1, 0.25, 0.9, 0.5};
  for (const DType dtype : {DType::float32, DType::float64}) {
    Tensor x = tensor(p).to(dtype).set_requires_grad();
    Tensor t = tensor({0, 1, 0, 1, 1, 0.3, 0.5}, {7}, dtype).set_requires_grad();
    const Tensor losses = binary_cross_entropy(x, t, {.reduction = Reduction::none});
    CHECK(are_close(losses, {0, 100, 100, 0, 1.38629436, 1.64341772, 0.69314718}));
    const std::vector<Tensor> gradients = grad({losses.sum()}, {x, t});
    CHECK(are_close(gradients[0], {0, -1e12, 1e12, 0, -4, 6.66666667, 0}));
    CHECK(are_close(gradients[1], {INFINITY, INFINITY, -INFINITY, -INFINITY, 1.09861229, -2.19722458, 0}));
    const Tensor weight = tensor({1, 2, 3, 4, 0.5, 2, 1}, {7}, dtype);
    CHECK(binary_cross_entropy(x, t, {weight}).item() == doctest::Approx(72.09616140));
    CHECK(binary_cross_entropy(x, t, {.weight = weight, .reduction = Reduction::sum}).item() ==
          doctest::Approx(504.67312980));
  }
  const Tensor outside = binary_cross_entropy(tensor({1.5, -0.5}), tensor({1, 0}), {.reduction = Reduction::none});
  CHECK(all(isnan(outside)).item<bool>());

  const Tensor x = tensor({0.5, 0.5});
  CHECK_THROWS_WITH_AS(binary_cross_entropy(x, ones({2}), {.pos_weight = ones({2})}),
                       doctest::Contains("pos_weight is for binary_cross_entropy_with_logits"), ValueError);
  CHECK_THROWS_WITH_AS(binary_cross_entropy(x, ones({2}), {.weight = ones({3, 2})}),
                       doctest::Contains("weight[3, 2] does not broadcast to the shape of target[2]"), ShapeError);
  CHECK_THROWS_AS(binary_cross_entropy(x, ones({1})), ShapeError);
  CHECK_THROWS_AS(binary_cross_entropy(labels({1}), labels({1})), DTypeError);
}

TEST_CASE("accuracy is the share of rows that are right") {
  const Tensor logits = tensor({1, 2, 3, 1, 0, 0}, {3, 2});
  CHECK(accuracy(logits, labels({1, 0, 0})) == 1);
  CHECK(accuracy(logits, labels({1, 1, 1})) == doctest::Approx(1.0 / 3));
  CHECK(std::isnan(accuracy(zeros({0, 2}), zeros({0}, DType::int64))));
  CHECK_THROWS_AS(accuracy(logits, labels({0})), ShapeError);
  CHECK(accuracy(logits, labels({1, -100, 1})) == 0.5);
  CHECK(accuracy(logits, labels({1, 0, 1}), 0) == 0.5);
  CHECK(std::isnan(accuracy(logits, labels({-1, -1, -1}), -1)));
  CHECK_THROWS_WITH_AS(accuracy(logits, labels({1, 2, 0})),
                       doctest::Contains("accuracy: target 2 of row 1 is not a class: there are 2"), IndexError);
}

}  // namespace linnet
