/// Conventions of layers that no golden file covers: initial values, dropout, positions.

#include <doctest/doctest.h>

#include <cmath>

#include <linnet/linnet.h>

#include "tests/support/near.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

using namespace linnet;
using linnet::test::near;
using linnet::test::same_bits;

TEST_CASE("Linear, Embedding: initial values as in PyTorch") {
  Generator rng(3);
  nn::Sequential net(rng);
  const nn::Linear linear(net, "linear", 400, 100);
  const double bound = 1.0 / 20;  // 1/√in
  CHECK(max(abs(linear.weight())).item<double>() <= bound);
  CHECK(max(abs(linear.weight())).item<double>() > 0.99 * bound);
  CHECK(std::abs(mean(linear.weight()).item<double>()) < 6e-4);
  CHECK(max(abs(linear.bias())).item<double>() <= bound);
  CHECK(max(abs(linear.bias())).item<double>() > 0.9 * bound);
  const nn::Embedding table(net, "table", 200, 200);
  CHECK(var(table.weight()).item<double>() == near(1, 0.03));
}

TEST_CASE("Convolutions: initial values as in PyTorch, options, and errors at construction") {
  Generator rng(3);
  nn::Sequential net(rng);
  const auto check_start = [](const Tensor& weight, const Tensor& bias, double fan) {
    CAPTURE(to_string(weight.shape()));
    const double bound = 1 / std::sqrt(fan);
    CHECK(max(abs(weight)).item<double>() <= bound);
    CHECK(max(abs(weight)).item<double>() > 0.99 * bound);
    CHECK(max(abs(bias)).item<double>() <= bound);
    CHECK(max(abs(bias)).item<double>() > 0.9 * bound);
  };
  const nn::Conv2d conv(net, "conv", 16, 64, {5, 4}, {.groups = 2});
  CHECK(conv.weight().shape() == Shape{64, 8, 5, 4});
  check_start(conv.weight(), conv.bias(), 8 * 5 * 4);
  const nn::ConvTranspose2d transposed(net, "transposed", 32, 40, 3, {.stride = 2, .output_padding = 1});
  const nn::Conv1d of_signals(net, "of_signals", 30, 40, 5, {.padding = "same"});
  CHECK(transposed(ones({1, 32, 4, 5})).shape() == Shape{1, 40, 10, 12});
  CHECK(of_signals(ones({2, 30, 7})).shape() == Shape{2, 40, 7});
  const TensorMap state = net.state();
  check_start(state.at("transposed.weight"), state.at("transposed.bias"), 40 * 9);
  check_start(state.at("of_signals.weight"), state.at("of_signals.bias"), 30 * 5);
  CHECK_FALSE(nn::Conv2d(net, "plain", 2, 2, 1, {.bias = false}).bias().defined());

  CHECK_THROWS_WITH_AS(nn::Conv2d(net, "a", 3, 8, 0), doctest::Contains("sizes must be at least 1"), ValueError);
  CHECK_THROWS_WITH_AS(nn::Conv2d(net, "b", 3, 8, 3, {.groups = 2}),
                       doctest::Contains("both numbers of channels must be multiples of groups, 2"), ValueError);
  CHECK_THROWS_AS(nn::Conv1d(net, "c", 4, 0, 3), ValueError);
  CHECK_THROWS_AS(nn::ConvTranspose2d(net, "d", 4, 6, 3, {.groups = 4}), ValueError);
}

TEST_CASE("Convolutions: every option reaches the op") {
  Generator rng(3);
  nn::Sequential net(rng);
  const auto input = [](const Shape& shape) { return test::uniform(shape, 1).to(DType::float32); };

  const Tensor signal = input({2, 8, 30});
  const nn::Conv1d of_signals(net, "of_signals", 8, 12, 5, {.stride = 2, .padding = 1, .dilation = 3, .groups = 4});
  CHECK(same_bits(of_signals(signal), conv1d(signal, of_signals.weight(), of_signals.bias(),
                                             {.stride = 2, .padding = 1, .dilation = 3, .groups = 4})));
  const Tensor image = input({2, 7, 30, 40});
  const nn::Conv2d conv(net, "conv", 7, 14, {3, 4},
                        {.stride = {2, 3}, .padding = {4, 1}, .dilation = {5, 6}, .groups = 7});
  CHECK(same_bits(conv(image), conv2d(image, conv.weight(), conv.bias(),
                                      {.stride = {2, 3}, .padding = {4, 1}, .dilation = {5, 6}, .groups = 7})));
  const nn::ConvTranspose2d transposed(
      net, "transposed", 7, 14, {3, 4},
      {.stride = {8, 9}, .padding = {1, 2}, .output_padding = {3, 4}, .groups = 7, .dilation = {5, 6}});
  const Tensor small = input({2, 7, 5, 4});
  CHECK(same_bits(
      transposed(small),
      conv_transpose2d(
          small, transposed.weight(), transposed.bias(),
          {.stride = {8, 9}, .padding = {1, 2}, .output_padding = {3, 4}, .groups = 7, .dilation = {5, 6}})));
}

TEST_CASE("Norms: eps is added to the variance, or to the mean square") {
  Generator rng(3);
  nn::Sequential net(rng);
  const auto first = [](const Tensor& y) { return y.to_vector<double>()[0]; };
  const Tensor x = tensor({1.0, -1.0});  // mean 0, variance 1
  CHECK(first(nn::LayerNorm(net, "layer", 2, {.eps = 3})(x)) == near(0.5, 1e-6));
  CHECK(first(nn::RMSNorm(net, "rms", 2, 3)(x)) == near(0.5, 1e-6));
  CHECK(first(nn::GroupNorm(net, "group", 1, 2, {.eps = 3})(x.reshape({1, 2}))) == near(0.5, 1e-6));
  CHECK(first(nn::BatchNorm1d(net, "batch", 1, {.eps = 3})(x.reshape({2, 1}))) == near(0.5, 1e-6));
}

TEST_CASE("Poolings in a Sequential") {
  Generator rng(3);
  nn::Sequential net(rng);
  net.add<nn::Conv2d>(1, 2, 3, nn::Conv2dConfig{.padding = 1})
      .add(relu)
      .add<nn::MaxPool2d>(2)
      .add<nn::AvgPool2d>(Size2d(2, 3));
  CHECK(net(ones({4, 1, 8, 12})).shape() == Shape{4, 2, 2, 2});
}

TEST_CASE("Poolings: a model with another pooling does not load") {
  Generator rng(3);
  nn::Sequential here(rng), there(rng);
  here.add<nn::MaxPool2d>(2).add<nn::AvgPool2d>(3, Pool2dOptions{.padding = 1});
  there.add<nn::MaxPool2d>(Size2d(2, 3)).add<nn::AvgPool2d>(3, Pool2dOptions{.stride = 2, .padding = 1});
  CHECK_THROWS_WITH_AS(here.load_state(there),
                       doctest::Contains("\n  different: kernel is 2 here and 2×3 there, in 0\n  different: stride "
                                         "is 2 here and 2×3 there, in 0\n  different: stride is 3 here and 2 there, "
                                         "in 1\n"),
                       Error);
  CHECK(here.load_state(here).settings.empty());
}

TEST_CASE("init: bounds and variances") {
  Generator rng(4);
  Tensor weight = zeros({300, 200});
  const auto variance = [&] { return var(weight).item<double>(); };
  nn::init::xavier_uniform_(weight, rng);
  CHECK(max(weight).item<double>() <= std::sqrt(6.0 / 500));
  CHECK(variance() == near(2.0 / 500, 0.03));
  nn::init::xavier_normal_(weight, rng, 2);
  CHECK(variance() == near(4 * 2.0 / 500, 0.03));
  nn::init::kaiming_uniform_(weight, rng);
  CHECK(max(weight).item<double>() <= std::sqrt(6.0 / 200));
  CHECK(variance() == near(2.0 / 200, 0.03));
  nn::init::kaiming_normal_(weight, rng, 1);
  CHECK(variance() == near(1.0 / 200, 0.03));
  nn::init::kaiming_normal_(weight, rng, 1, nn::init::FanMode::fan_out);
  CHECK(variance() == near(1.0 / 300, 0.03));
  nn::init::trunc_normal_(weight, rng, 1, 0.5, 0.5, 2);
  CHECK(min(weight).item<double>() >= 0.5);
  CHECK(max(weight).item<double>() <= 2);
  // The mean and variance of N(1, 0.25) between −1 and 2 standard deviations from its mean.
  CHECK(mean(weight).item<double>() == near(1 + 0.5 * 0.2296, 0.01));
  CHECK(variance() == near(0.25 * 0.5198, 0.03));
  for (const auto& [mean, a, b] : {std::tuple{0.0, 9.0, 10.0}, {10.0, -2.0, 2.0}, {-10.0, -2.0, 2.0}}) {
    nn::init::trunc_normal_(weight, rng, mean, 1, a, b);  // nearly all of the distribution is outside
    CHECK(all(logical_and(ge(weight, a), le(weight, b))).item<bool>());
  }
  CHECK_THROWS_WITH_AS(nn::init::trunc_normal_(weight, rng, 0, 1, 2, 2), doctest::Contains("must not be empty"),
                       ValueError);
  nn::init::uniform_(weight, rng, 2, 4);
  CHECK(min(weight).item<double>() >= 2);
  CHECK(variance() == near(4.0 / 12, 0.03));
  nn::init::ones_(weight);
  CHECK(sum(weight).item<double>() == 60'000);
  Tensor row = zeros({3});
  CHECK_THROWS_WITH_AS(
      nn::init::kaiming_uniform_(row, rng, 0, nn::init::FanMode::fan_in, {"a.cpp", 7}),
      "kaiming_uniform_: a tensor of shape [3] has no fan in and fan out; use uniform_ or normal_ (a.cpp:7)",
      ShapeError);
  nn::Sequential net(rng);
  const nn::Linear layer(net, "layer", 3, 3);
  nn::init::ones_(layer.weight());
  CHECK(layer.weight().to_vector<float>() == std::vector<float>(9, 1));
}

TEST_CASE("Dropout: in training only, from the model's generator") {
  Generator rng(5);
  nn::Sequential net(rng);
  net.add<nn::Dropout>(0.25);
  const Tensor x = ones({10'000});
  const Tensor y = net(x);
  CHECK(mean(y).item<double>() == near(1, 0.03));
  CHECK(max(y).item<double>() == near(4.0 / 3, 1e-6));
  CHECK(net(x).to_vector<float>() != y.to_vector<float>());
  net.eval();
  CHECK(net(x).to_vector<float>() == x.to_vector<float>());
  CHECK_THROWS_WITH_AS(net.add<nn::Dropout>(1.5), doctest::Contains("must be from 0 to 1"), ValueError);
  CHECK_THROWS_AS(net.add<nn::Dropout>(-0.5), ValueError);

  nn::Sequential nothing(rng);
  nothing.add<nn::Dropout>(1.0);
  CHECK(nothing(x).to_vector<float>() == std::vector<float>(10'000, 0));
  nothing.eval();
  CHECK(nothing(x).to_vector<float>() == x.to_vector<float>());
}

TEST_CASE("positions: sinusoids, rotations, and the end of learned ones") {
  const std::vector<double> table = nn::sinusoidal_positions(2, 4, 3, DType::float64).to_vector<double>();
  const std::vector<double> expected = {std::sin(3.0), std::cos(3.0), std::sin(0.03), std::cos(0.03),
                                        std::sin(4.0), std::cos(4.0), std::sin(0.04), std::cos(0.04)};
  for (size_t i = 0; i < expected.size(); ++i) CHECK(table[i] == near(expected[i], 1e-14));

  // A product of rotated vectors depends only on their distance.
  Generator rng(6);
  const Tensor q = randn({1, 8}, rng, DType::float64), k = randn({1, 8}, rng, DType::float64);
  const auto product = [&](int64_t i, int64_t j) { return sum(nn::rotate(q, i) * nn::rotate(k, j)).item<double>(); };
  CHECK(product(7, 4) == near(product(1007, 1004), 1e-11));
  CHECK(product(7, 4) != near(product(7, 5), 1e-3));
  CHECK(nn::rotate(q, 0).to_vector<double>() == q.to_vector<double>());
  CHECK_THROWS_AS(nn::rotate(zeros({2, 3})), ShapeError);
  CHECK_THROWS_WITH_AS(nn::rotate(arange(8).reshape({2, 4})),
                       doctest::Contains("rotate: takes floating tensors, not int64"), DTypeError);

  nn::Sequential net(rng);
  for (const nn::Positions kind : {nn::Positions::sinusoidal, nn::Positions::learned}) {
    const nn::PositionEmbedding added(net, kind == nn::Positions::learned ? "learned" : "sinusoidal", kind, 8, 4);
    CHECK_THROWS_AS(added(zeros({1, 8, 4}, DType::int64)), DTypeError);
  }
  CHECK_THROWS_WITH_AS(nn::sinusoidal_positions(2, 4, 0, DType::int32),
                       doctest::Contains("sinusoidal_positions: takes floating tensors, not int32"), DTypeError);
  const nn::PositionEmbedding pos(net, "pos", nn::Positions::learned, 8, 4);
  CHECK(pos(zeros({1, 8, 4})).shape() == Shape{1, 8, 4});
  CHECK_THROWS_WITH_AS(pos(zeros({1, 9, 4})), doctest::Contains("9 tokens, but learned positions end at 8"),
                       ValueError);
  CHECK_THROWS_WITH_AS(pos(zeros({1, 1, 4}), 8), doctest::Contains("sinusoidal or rotary"), ValueError);
}

TEST_CASE("orthogonal_: rows or columns are orthonormal, and their directions are uniform") {
  Generator rng(5);
  for (const Shape& shape : {Shape{4, 6}, Shape{6, 4}, Shape{3, 2, 2, 2}}) {
    Tensor weight = zeros(shape, DType::float64);
    nn::init::orthogonal_(weight, rng, 2);
    const Tensor matrix = weight.flatten(1);
    const bool is_wide = matrix.size(0) <= matrix.size(1);
    const Tensor products = is_wide ? matmul(matrix, transpose(matrix)) : matmul(transpose(matrix), matrix);
    CHECK(allclose(products, eye(products.size(0), -1, DType::float64) * 4, 0, 1e-12));
  }
  double sum = 0;  // of the first element of a random direction: mean 0, variance ⅓
  for (int i = 0; i < 600; ++i) {
    Tensor weight = zeros({3, 3});
    nn::init::orthogonal_(weight, rng);
    sum += weight[{0, 0}].item();
  }
  CHECK(std::abs(sum / 600) < 5 * std::sqrt(1.0 / 3 / 600));
  Tensor row = zeros({3});
  CHECK_THROWS_AS(nn::init::orthogonal_(row, rng), ShapeError);
}

TEST_CASE("Upsample and AdaptiveAvgPool2d are their ops, and their options are settings") {
  Generator rng(6);
  nn::Sequential net(rng);
  net.add<nn::Upsample>(InterpolateOptions{.scale_factor = {2}, .mode = InterpolateMode::linear})
      .add<nn::AdaptiveAvgPool2d>(Size2d(3, 1));
  const Tensor x = randn({2, 3, 4, 5}, rng);
  CHECK(test::same_bits(
      net(x), adaptive_avg_pool2d(interpolate(x, {.scale_factor = {2}, .mode = InterpolateMode::linear}), {3, 1})));
  std::string settings;
  for (const nn::Setting& setting : net.named_settings()) settings += setting.name + "=" + setting.value + " ";
  CHECK(settings == "0.size= 0.scale_factor=2 0.mode=2 0.align_corners=false 1.output_size=3×1 ");
}

TEST_CASE("PositionEmbedding: a learned position before the first is refused") {
  Generator rng(1);
  nn::Sequential net(rng);
  const nn::PositionEmbedding positions(net, "positions", nn::Positions::learned, 8, 4);
  CHECK_THROWS_WITH_AS(positions(zeros({1, 1, 4}), -1), doctest::Contains("positions begin at 0, not at -1"),
                       ValueError);
}
