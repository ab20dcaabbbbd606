#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/layers/normalisation.h>

#include "tests/support/near.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

namespace linnet {

TEST_CASE("layer_norm gives rows of mean 0 and variance 1, scaled and shifted") {
  const Tensor x = tensor({1, 2, 3, 4}, DType::float64);
  const std::vector<double> y = layer_norm(x, {}, {}, 0).to_vector<double>();
  const double deviation = std::sqrt(1.25);
  for (int i = 0; i < 4; ++i) CHECK(y[i] == doctest::Approx((i - 1.5) / deviation).epsilon(1e-14));
  CHECK(layer_norm(x, {}, {}, 1).to_vector<double>()[0] == doctest::Approx(-1).epsilon(1e-14));  // −1.5/√(1.25 + 1)
  const Tensor weight = tensor({1, 2, 3, 4}, DType::float64), bias = tensor({5, 6, 7, 8}, DType::float64);
  const std::vector<double> z = layer_norm(x, weight, bias, 0).to_vector<double>();
  for (int i = 0; i < 4; ++i) CHECK(z[i] == doctest::Approx(y[i] * (i + 1) + i + 5).epsilon(1e-14));
}

TEST_CASE("rms_norm gives rows of mean square 1, scaled") {
  const Tensor x = tensor({3, 4, 0, 0}, DType::float64), weight = tensor({1, 2, 3, 4}, DType::float64);
  const std::vector<double> y = rms_norm(x, weight, 0).to_vector<double>();
  CHECK(y[0] == doctest::Approx(1.2).epsilon(1e-14));
  CHECK(y[1] == doctest::Approx(3.2).epsilon(1e-14));
  CHECK(y[3] == 0);
  CHECK(rms_norm(x, {}, 2.75).to_vector<double>()[0] == doctest::Approx(1).epsilon(1e-14));  // 3/√(6.25 + 2.75)
}

TEST_CASE("layer_norm of float32 keeps its digits beside a large mean") {
  // The variance of one pass, mean(x²) − mean(x)², would be lost to rounding here.
  const std::vector<double> y = layer_norm(tensor({10000, 10001, 10002, 10003}), {}, {}, 0).to_vector<double>();
  for (int i = 0; i < 4; ++i) CHECK(y[i] == doctest::Approx((i - 1.5) / std::sqrt(1.25)).epsilon(1e-6));
}

TEST_CASE("a row without variance gives the bias, and finite gradients") {
  Tensor x = full({2, 3}, 7.0);
  x.set_requires_grad();
  const Tensor y = layer_norm(x, {}, tensor({1, 2, 3}));
  CHECK(y.to_vector<float>() == std::vector<float>{1, 2, 3, 1, 2, 3});
  const Tensor dx = grad({y}, {x}, {.grad_outputs = {tensor({1, 2, 4, 0, 0, 1}, {2, 3})}})[0];
  for (const float value : dx.to_vector<float>()) CHECK(std::isfinite(value));
}

TEST_CASE("normalisation has the same bits for any number of threads") {
  Generator generator(7);
  const Tensor x = randn({3000, 40}, generator).set_requires_grad();
  const Tensor weight = randn({40}, generator).set_requires_grad(), bias = randn({40}, generator).set_requires_grad();
  const Tensor g = randn({3000, 40}, generator);
  test::check_threads_change_no_bit([&] {
    const Tensor y = layer_norm(x, weight, bias), z = rms_norm(x, weight);
    std::vector<Tensor> all{y, z};
    for (const Tensor& t : grad({y}, {x, weight, bias}, {.grad_outputs = {g}})) all.push_back(t);
    for (const Tensor& t : grad({z}, {x, weight}, {.grad_outputs = {g}})) all.push_back(t);
    return all;
  });
}

TEST_CASE("normalisation: gradients of weight and bias are sums over all rows, which are divided among tasks") {
  const Tensor x = test::uniform({3000, 40}, 1), g = test::uniform({3000, 40}, 2);  // 14 tasks
  const Tensor weight = test::uniform({40}, 3).set_requires_grad(), bias = test::uniform({40}, 4).set_requires_grad();
  const std::vector<Tensor> of_layer = grad({layer_norm(x, weight, bias)}, {weight, bias}, {.grad_outputs = {g}});
  CHECK(test::largest_difference(of_layer[0], sum(g * layer_norm(x), {0})) < 1e-11);
  CHECK(test::largest_difference(of_layer[1], sum(g, {0})) < 1e-11);
  const std::vector<Tensor> of_rms = grad({rms_norm(x, weight)}, {weight}, {.grad_outputs = {g}});
  CHECK(test::largest_difference(of_rms[0], sum(g * rms_norm(x), {0})) < 1e-11);
}

TEST_CASE("normalisation says what does not fit") {
  CHECK_THROWS_WITH_AS(layer_norm(zeros({2, 3}), zeros({4})),
                       doctest::Contains("layer_norm: weight[4] does not fit x[2, 3]: it must be [3]"), ShapeError);
  CHECK_THROWS_WITH_AS(layer_norm(zeros({2, 3}), {}, zeros({2, 3})), doctest::Contains("bias[2, 3]"), ShapeError);
  CHECK_THROWS_AS(rms_norm(zeros({2, 3}), zeros({2})), ShapeError);
  CHECK_THROWS_AS(rms_norm(scalar(1)), ShapeError);
  CHECK_THROWS_AS(layer_norm(zeros({2, 3}), {}, {}, -1), ValueError);
  CHECK_THROWS_AS(layer_norm(zeros({2, 3}, DType::int64)), DTypeError);
  CHECK_THROWS_AS(layer_norm(zeros({2, 3}), zeros({3}, DType::float64)), DTypeError);
}

TEST_CASE("normalisation refuses a second derivative") {
  Generator generator(8);
  const Tensor x = randn({2, 3}, generator).set_requires_grad();
  const GradOptions twice{.grad_outputs = {ones({2, 3})}, .create_graph = true};
  CHECK_THROWS_WITH_AS(grad({layer_norm(x)}, {x}, twice), doctest::Contains("it is fused"), AutogradError);
  CHECK_THROWS_WITH_AS(grad({rms_norm(x)}, {x}, twice), doctest::Contains("it is fused"), AutogradError);
}

TEST_CASE("layer_norm: a constant row is 0, whatever the mean's rounding and eps") {
  for (const double eps : {1e-5, 1e-12}) {
    for (const int64_t width : {1, 3, 16, 100, 1000}) {
      for (const double value : {30.3, -1e-3, 12345.678}) {
        CAPTURE(eps);
        CAPTURE(width);
        CAPTURE(value);
        const std::vector<float> y = layer_norm(full({2, width}, value), {}, {}, eps).to_vector<float>();
        CHECK(std::all_of(y.begin(), y.end(), [](float v) { return v == 0; }));
      }
    }
  }
}

TEST_CASE("layer_norm: a mean of a thousand deviations costs float32 no more than its inputs' own rounding") {
  Generator rng(3);
  const Tensor noise = randn({8, 64}, rng);
  const Tensor x = noise + 1000;
  const Tensor exact = layer_norm(x.to(DType::float64)), rounded = layer_norm(x);
  CHECK(max(abs(rounded.to(DType::float64) - exact)).item<double>() < 1e-4);  // half a unit of 1000 is 3e-5
}

}  // namespace linnet
