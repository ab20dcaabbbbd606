#include <cmath>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/layers/convolution.h>
#include <linnet/ops/layers/pooling.h>

#include "tests/support/near.h"
#include "tests/support/same_bits.h"
#include "tests/support/values.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// A convolution of x [B, C, H, W] without bias.
struct ConvolutionCase {
  const char* name;
  Shape x, weight;
  Conv2dOptions options;
};

/// Convolutions of several tiles, with tiles that cover several images, and with divided channels.
const ConvolutionCase kLarge[] = {
    {"many tiles to an image", {2, 8, 90, 70}, {24, 8, 3, 3}, {.padding = 1}},
    {"several images to a tile", {37, 5, 7, 6}, {20, 5, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}}},
    {"one image, many channels", {1, 130, 6, 5}, {70, 130, 3, 3}, {.padding = "same"}},
    {"padding beyond the kernel, as wide as before",
     {2, 6, 50, 41},
     {16, 6, 3, 5},
     {.padding = {5, 4}, .dilation = {4, 2}}},
    {"steps between rows alone", {2, 5, 20, 9}, {16, 5, 3, 3}, {.stride = {2, 1}, .padding = 1}},
    {"a kernel wider than the images", {30, 4, 9, 3}, {20, 4, 3, 7}, {.padding = {1, 3}}},
    {"groups of one channel", {3, 33, 20, 17}, {66, 1, 5, 3}, {.padding = {2, 1}, .groups = 33}},
    {"steps and gaps",
     {4, 12, 31, 29},
     {18, 4, 3, 4},
     {.stride = {3, 2}, .padding = {4, 5}, .dilation = {2, 3}, .groups = 3}},
};

/// y, dx and dweight in the dtype of x.
std::vector<Tensor> convolve_both_passes(const Tensor& x, const Tensor& weight, const Conv2dOptions& options) {
  const std::vector<Tensor> leaves = {x.detach().set_requires_grad(), weight.detach().set_requires_grad()};
  const Tensor y = conv2d(leaves[0], leaves[1], {}, options);
  std::vector<Tensor> results = grad({y}, leaves, {.grad_outputs = {uniform(y.shape(), 3).to(y.dtype())}});
  results.push_back(y.detach());
  return results;
}

double sum_of_products(const Tensor& a, const Tensor& b) { return (a * b).sum().item(); }

/// The definition, pixel by pixel.
Tensor conv2d_reference(const Tensor& x, const Tensor& weight, const Shape& output, int64_t before_rows,
                        int64_t before_columns, const Conv2dOptions& options) {
  Tensor y = zeros(output, DType::float64);
  const auto at = [](const Tensor& t, int64_t a, int64_t b, int64_t c, int64_t d) {
    return static_cast<size_t>(((a * t.size(1) + b) * t.size(2) + c) * t.size(3) + d);
  };
  const std::vector<double> from = x.to_vector<double>(), w = weight.to_vector<double>();
  const std::span<double> to = y.mutable_data<double>();
  const int64_t outputs = weight.size(0) / options.groups;
  for (int64_t b = 0; b < output[0]; ++b) {
    for (int64_t o = 0; o < output[1]; ++o) {
      for (int64_t i = 0; i < output[2]; ++i) {
        for (int64_t j = 0; j < output[3]; ++j) {
          double sum = 0;
          for (int64_t c = 0; c < weight.size(1); ++c) {
            for (int64_t r = 0; r < weight.size(2); ++r) {
              for (int64_t s = 0; s < weight.size(3); ++s) {
                const int64_t row = i * options.stride.height + r * options.dilation.height - before_rows;
                const int64_t column = j * options.stride.width + s * options.dilation.width - before_columns;
                if (row < 0 || row >= x.size(2) || column < 0 || column >= x.size(3)) continue;
                sum += w[at(weight, o, c, r, s)] * from[at(x, b, o / outputs * weight.size(1) + c, row, column)];
              }
            }
          }
          to[at(y, b, o, i, j)] = sum;
        }
      }
    }
  }
  return y;
}

}  // namespace

TEST_CASE("conv2d of large sizes is its definition, and its gradients are its transposes") {
  for (const ConvolutionCase& c : kLarge) {
    CAPTURE(c.name);
    const Tensor x = uniform(c.x, 1), weight = uniform(c.weight, 2);
    const std::vector<Tensor> results = convolve_both_passes(x, weight, c.options);
    const Tensor &dx = results[0], &dweight = results[1], &y = results[2];
    const Size2d before = c.options.padding.same ? Size2d(1) : c.options.padding.size;  // kernels of 3×3
    CHECK(largest_difference(y, conv2d_reference(x, weight, y.shape(), before.height, before.width, c.options)) <
          1e-12);
    // y is linear in x and in the weight, so Σ g·y(h, w) = Σ h·dx and Σ g·y(x, h) = Σ h·dweight, for any h.
    const Tensor g = uniform(y.shape(), 3), of_x = uniform(c.x, 4), of_weight = uniform(c.weight, 5);
    CHECK(sum_of_products(g, conv2d(of_x, weight, {}, c.options)) == near(sum_of_products(of_x, dx), 1e-11));
    CHECK(sum_of_products(g, conv2d(x, of_weight, {}, c.options)) ==
          near(sum_of_products(of_weight, dweight), 1e-11));
  }
}

TEST_CASE("conv2d in float32 is near float64, and the same for any number of threads") {
  for (const ConvolutionCase& c : kLarge) {
    CAPTURE(c.name);
    const Tensor x = uniform(c.x, 1).to(DType::float32), weight = uniform(c.weight, 2).to(DType::float32);
    const std::vector<Tensor> exact =
        convolve_both_passes(x.to(DType::float64), weight.to(DType::float64), c.options);
    check_threads_change_no_bit([&] {
      const std::vector<Tensor> results = convolve_both_passes(x, weight, c.options);
      for (size_t i = 0; i < 3; ++i)
        CHECK(largest_difference(results[i].to(DType::float64), exact[i]) < 1e-5 * exact[i].abs().max().item());
      return results;
    });
  }
}

TEST_CASE("conv2d takes any strides") {
  const Tensor x = uniform({2, 5, 6, 3}, 1).permute({0, 3, 1, 2}),
               weight = uniform({3, 3, 3, 4}, 2).permute({3, 2, 0, 1});
  const Tensor bias = uniform({4, 2}, 3).select(1, 0);
  CHECK(same_bits(conv2d(x, weight, bias), conv2d(x.contiguous(), weight.contiguous(), bias.contiguous())));
}

TEST_CASE("a padding of \"same\" keeps the size, with the odd zero behind") {
  for (const int64_t kernel : {1, 2, 3, 4, 5}) {
    const Tensor x = uniform({1, 1, 6, 7}, 1);
    CHECK(conv2d(x, uniform({1, 1, kernel, kernel}, 2), {}, {.padding = "same"}).shape() == x.shape());
  }
  const Tensor y = conv1d(tensor({1.0, 2.0, 3.0}).reshape({1, 1, 3}), ones({1, 1, 2}), {}, {.padding = "same"});
  CHECK(y.to_vector<float>() == std::vector<float>{3, 5, 3});
  CHECK_THROWS_WITH_AS(Padding2d("full"), "padding is a number, \"same\" or \"valid\", not \"full\"", ValueError);
}

TEST_CASE("conv_transpose2d is the gradient of conv2d by its input") {
  const Tensor x = uniform({2, 3, 8, 9}, 1).set_requires_grad(), weight = uniform({4, 3, 3, 2}, 2);
  const Conv2dOptions options{.stride = {2, 3}, .padding = {1, 0}};
  const Tensor y = conv2d(x, weight, {}, options), g = uniform(y.shape(), 3);
  const Tensor dx = conv_transpose2d(g, weight, {}, {.stride = {2, 3}, .padding = {1, 0}, .output_padding = {1, 1}});
  CHECK(same_bits(dx, grad({y}, {x}, {.grad_outputs = {g}})[0]));
}

TEST_CASE("max pooling: ties, NaN, infinities and padding") {
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const auto pooled = [](const std::vector<double>& values) {
    Tensor x = tensor(values).reshape({1, 1, 2, 2}).set_requires_grad();
    const Tensor y = max_pool2d(x, 2);
    y.sum().backward();
    return std::pair(y.item(), x.grad().to_vector<double>());
  };
  CHECK(pooled({1, 3, 3, 2}) == std::pair(3.0, std::vector<double>{0, 1, 0, 0}));
  CHECK(pooled({-infinity, -infinity, -infinity, -infinity}) ==
        std::pair(-infinity, std::vector<double>{1, 0, 0, 0}));
  const auto [largest, gradient] = pooled({5, nan, infinity, nan});
  CHECK(std::isnan(largest));
  CHECK(gradient == std::vector<double>{0, 1, 0, 0});
  // In a maximum, padding is less than every number.
  CHECK(max_pool2d(full({1, 1, 2, 2}, -7.0), 3, {.stride = 2, .padding = 1}).item() == -7);
  // In a mean, padding is 0.
  CHECK(avg_pool2d(full({1, 1, 2, 2}, 9.0), 3, {.stride = 2, .padding = 1}).item() == near(4));
}

TEST_CASE("poolings are the same for any number of threads") {
  const Tensor x = uniform({5, 7, 45, 62}, 1).to(DType::float32);
  check_threads_change_no_bit([&] {
    const Tensor leaf = x.detach().set_requires_grad();
    const Tensor y = max_pool2d(leaf, 3, {.stride = 2, .padding = 1}), z = avg_pool2d(leaf, {2, 3});
    backward(y.square().sum() + z.square().sum());
    return std::vector<Tensor>{y.detach(), z.detach(), leaf.grad()};
  });
}

TEST_CASE("convolutions say what is wrong") {
  const Tensor x = uniform({2, 3, 8, 8}, 1), weight = uniform({4, 3, 3, 3}, 2);
  CHECK_THROWS_WITH_AS(
      conv2d(x.permute({0, 2, 3, 1}), weight, {}, {}, {"a.cpp", 1}),
      "conv2d: x[2, 8, 8, 3] has 8 channels, but weight[4, 3, 3, 3] takes 3; channels come second: did "
      "you mean permute(x, {0, 3, 1, 2})? (a.cpp:1)",
      ShapeError);
  CHECK_THROWS_WITH_AS(
      conv1d(uniform({2, 9, 3}, 1), uniform({4, 3, 3}, 2), {}, {}, {"a.cpp", 1}),
      "conv1d: x[2, 9, 3] has 9 channels, but weight[4, 3, 3] takes 3; channels come second: did you "
      "mean transpose(x, 1, 2)? (a.cpp:1)",
      ShapeError);
  const Tensor line = uniform({2, 3, 9}, 1), taps = uniform({4, 3, 3}, 2);
  CHECK_THROWS_WITH_AS(
      conv1d(line, taps, {}, {.padding = {5, 1}}, {"a.cpp", 1}),
      "conv1d: padding is (5, 1), but one dim has one number, for both sides; pad(x, {5, 1}) pads the "
      "sides differently (a.cpp:1)",
      ValueError);
  CHECK(conv1d(line, taps, {}, {.padding = 5}).shape() == Shape{2, 4, 17});
  CHECK_THROWS_WITH_AS(
      conv2d(x, uniform({4, 3, 9, 3}, 2), {}, {}, {"a.cpp", 1}),
      "conv2d: the kernel reaches over 9 pixels, but with its padding the input has only 8; take a smaller kernel or "
      "dilation, or more padding (a.cpp:1)",
      ShapeError);
  CHECK_THROWS_WITH_AS(conv2d(x.select(0, 0), weight, {}, {}, {"a.cpp", 1}),
                       "conv2d: x[3, 8, 8] must be [B, C, H, W]; unsqueeze(0) makes a batch of one (a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_WITH_AS(conv2d(x, weight, {}, {.groups = 3}, {"a.cpp", 1}),
                       "conv2d: x[2, 3, 8, 8] has 3 channels, but weight[4, 3, 3, 3] in 3 groups takes 9 (a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_AS(conv2d(x, uniform({4, 1, 3, 3}, 2), {}, {.groups = 3}), ShapeError);
  CHECK_THROWS_WITH_AS(conv2d(x, weight, uniform({3}, 3), {}, {"a.cpp", 1}),
                       "conv2d: bias[3] must be [4], one number for each output channel (a.cpp:1)", ShapeError);
  CHECK_THROWS_WITH_AS(conv2d(x, weight, {}, {.stride = {1, 0}}, {"a.cpp", 1}),
                       "conv2d: stride must be at least 1, not (1, 0) (a.cpp:1)", ValueError);
  CHECK_THROWS_AS(conv2d(x, weight, {}, {.padding = -1}), ValueError);
  CHECK_THROWS_AS(conv2d(x, weight, {}, {.dilation = 0}), ValueError);
  constexpr int64_t kLargest = std::numeric_limits<int64_t>::max();
  CHECK_THROWS_WITH_AS(conv2d(x, weight, {}, {.dilation = {1, kLargest}}, {"a.cpp", 1}),
                       "conv2d: dilation must be at most 2147483647, not (1, 9223372036854775807) (a.cpp:1)",
                       ValueError);
  CHECK_THROWS_AS(conv2d(x, weight, {}, {.padding = kLargest}), ValueError);
  CHECK_THROWS_AS(conv2d(x, weight, {}, {.padding = "same", .dilation = kLargest}), ValueError);
  CHECK_THROWS_AS(conv_transpose2d(x, uniform({3, 4, 3, 3}, 2), {}, {.stride = kLargest}), ValueError);
  CHECK_THROWS_WITH_AS(conv2d(x, weight, {}, {.dilation = 2147483647}),
                       doctest::Contains("the kernel reaches over 4294967295 pixels"), ShapeError);
  CHECK_THROWS_WITH_AS(conv2d(x, weight, {}, {.stride = 2, .padding = "same"}, {"a.cpp", 1}),
                       "conv2d: padding \"same\" needs a stride of 1 (a.cpp:1)", ValueError);
  CHECK_THROWS_AS(conv2d(x.to(DType::int64), weight.to(DType::int64)), DTypeError);
  CHECK_THROWS_AS(conv2d(x.to(DType::float32), weight), DTypeError);
  CHECK_THROWS_AS(conv2d(zeros({1, 3, 0, 8}), zeros({4, 3, 3, 3}), {}, {.padding = 2}), ShapeError);
  CHECK_THROWS_AS(conv_transpose2d(x, weight), ShapeError);  // of 4 channels
  CHECK_THROWS_WITH_AS(
      conv_transpose2d(x, uniform({3, 4, 3, 3}, 2), {}, {.stride = 2, .output_padding = 2}, {"a.cpp", 1}),
      "conv_transpose2d: output_padding must be below the stride or the dilation, not 2 (a.cpp:1)", ValueError);
  CHECK_THROWS_AS(conv_transpose2d(uniform({1, 3, 1, 1}, 1), uniform({3, 4, 3, 3}, 2), {}, {.padding = 2}),
                  ShapeError);
}

TEST_CASE("convolutions and poolings of one dim name the numbers that were given") {
  const Tensor x = ones({1, 1, 4}), weight = ones({1, 1, 2});
  CHECK_THROWS_WITH_AS(conv1d(x, weight, {}, {.stride = 0}, {"a.cpp", 1}),
                       "conv1d: stride must be at least 1, not 0 (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(conv1d(x, weight, {}, {.padding = -1}, {"a.cpp", 1}),
                       "conv1d: padding must be at least 0, not -1 (a.cpp:1)", ValueError);
  CHECK_THROWS_WITH_AS(max_pool1d(x, 0, {}, {"a.cpp", 1}), "max_pool1d: kernel must be at least 1, not 0 (a.cpp:1)",
                       ValueError);
}

TEST_CASE("a padding of 0 can be written") {
  const Tensor x = ones({1, 1, 3, 3}), weight = ones({1, 1, 2, 2});
  CHECK(same_bits(conv2d(x, weight, {}, {.padding = 0}), conv2d(x, weight)));
}

TEST_CASE("poolings refuse a window that sees only padding") {
  const Tensor pixel = uniform({1, 1, 1}, 1), image = uniform({1, 1, 3, 8}, 2);
  CHECK_THROWS_WITH_AS(
      max_pool1d(pixel, 2, {.stride = 1, .padding = 1, .dilation = 2}, {"a.cpp", 1}),
      "max_pool1d: a window sees only padding, because its taps, 2 apart, step over all 1 pixels: the "
      "dilation must be at most 1 (a.cpp:1)",
      ShapeError);
  CHECK_THROWS_AS(max_pool2d(image, 2, {.stride = 1, .padding = {1, 0}, .dilation = {4, 1}}), ShapeError);
  CHECK_THROWS_AS(max_pool2d(image.transpose(2, 3), 2, {.stride = 1, .padding = {0, 1}, .dilation = {1, 4}}),
                  ShapeError);
  CHECK(max_pool1d(pixel, 2, {.stride = 1, .padding = 1}).shape() == Shape{1, 1, 2});
  CHECK(max_pool1d(pixel, 1, {.dilation = 2}).item() == pixel.item());
  CHECK(max_pool2d(image, 2, {.stride = 1, .padding = {1, 0}, .dilation = {3, 1}}).shape() == Shape{1, 1, 2, 7});
}

TEST_CASE("poolings say what is wrong") {
  CHECK_THROWS_AS(max_pool2d(ones({1, 1, 1, 1}), 46341, {.padding = 23170}), ValueError);
  const Tensor x = uniform({2, 3, 8, 8}, 1);
  CHECK_THROWS_WITH_AS(max_pool2d(x, 2, {.padding = 2}, {"a.cpp", 1}),
                       "max_pool2d: padding (2, 2) must be at most half of the kernel (2, 2), or a window may see no "
                       "pixel (a.cpp:1)",
                       ValueError);
  CHECK_THROWS_WITH_AS(avg_pool2d(x, 9, {}, {"a.cpp", 1}),
                       "avg_pool2d: the kernel reaches over 9 pixels, but with its padding the input has only 8; "
                       "take a smaller kernel "
                       "or dilation, or more padding (a.cpp:1)",
                       ShapeError);
  CHECK_THROWS_AS(max_pool2d(x.select(0, 0), 2), ShapeError);
  CHECK_THROWS_AS(max_pool1d(x, 2), ShapeError);
  CHECK_THROWS_AS(max_pool2d(x, 0), ValueError);
  CHECK_THROWS_WITH_AS(max_pool2d(x, 2, {.dilation = std::numeric_limits<int64_t>::max()}),
                       doctest::Contains("dilation must be at most 2147483647"), ValueError);
  CHECK_THROWS_AS(max_pool2d(x, 2, {.stride = 0}), ValueError);
  CHECK_THROWS_AS(avg_pool2d(x, 2, {.dilation = 2}), ValueError);
  CHECK_THROWS_AS(max_pool2d(zeros({1, 3, 0, 8}), 2), ShapeError);
  CHECK_THROWS_AS(max_pool2d(x.to(DType::int64), 2), DTypeError);
  CHECK_THROWS_WITH_AS(avg_pool2d(x.to(DType::int64), 2, {}, {"a.cpp", 1}),
                       "avg_pool2d: takes floating tensors, not int64; convert with to(DType::float32) (a.cpp:1)",
                       DTypeError);
}
