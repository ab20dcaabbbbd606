#include <linnet/ops/layers/convolution.h>

#include <doctest/doctest.h>

#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/layers/pooling.h>
#include <linnet/ops/layers/short_conv.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/derivations/derivation.h"

// The numbers are those of the steps in ops/layers/convolution_gradient.md.

using namespace linnet;
using namespace linnet::test;

namespace {

constexpr int64_t kBatch = 2, kIn = 3, kOut = 4, kLength = 11, kTaps = 3;
constexpr int64_t kStride = 2, kPadding = 2, kDilation = 3;
constexpr int64_t kWindows = (kLength + 2 * kPadding - kDilation * (kTaps - 1) - 1) / kStride + 1;
const Conv1dOptions kOptions{.stride = kStride, .padding = kPadding, .dilation = kDilation};

/// The position of tap s of window i in the padded x.
int64_t place(int64_t i, int64_t s) { return i * kStride + s * kDilation; }

/// X [B, C·S, L'], step (1).
Tensor patches(const Tensor& x) {
  const Tensor padded = pad(x, {kPadding, kPadding});
  std::vector<Tensor> rows;
  for (int64_t c = 0; c < kIn; ++c) {
    for (int64_t s = 0; s < kTaps; ++s) {
      std::vector<Tensor> row;
      for (int64_t i = 0; i < kWindows; ++i) row.push_back(padded.select(1, c).select(1, place(i, s)));
      rows.push_back(stack(row, 1));
    }
  }
  return stack(rows, 1);
}

/// ∂x [B, C, L] from ∂X, step (3).
Tensor folded(const Tensor& dpatches) {
  const int64_t length = kLength + 2 * kPadding;
  std::vector<Tensor> pixels(static_cast<size_t>(kIn * length), zeros({kBatch}, DType::float64));
  for (int64_t c = 0; c < kIn; ++c) {
    for (int64_t s = 0; s < kTaps; ++s) {
      for (int64_t i = 0; i < kWindows; ++i) {
        Tensor& pixel = pixels[static_cast<size_t>(c * length + place(i, s))];
        pixel = pixel + dpatches.select(1, c * kTaps + s).select(1, i);
      }
    }
  }
  return stack(pixels, 1).reshape({kBatch, kIn, length}).narrow(2, kPadding, kLength);
}

struct ConvolutionCase {
  Tensor x = uniform({kBatch, kIn, kLength}, 1), w = uniform({kOut, kIn, kTaps}, 2), b = uniform({kOut}, 3);
  Tensor dy = uniform({kBatch, kOut, kWindows}, 4);

  Tensor matrix(const Tensor& weight) const { return weight.reshape({kOut, kIn * kTaps}); }
  /// w̄(g, x)
  Tensor weight_gradient(const Tensor& g, const Tensor& image) const {
    return sum(matmul(g, transpose(patches(image))), {0}).reshape({kOut, kIn, kTaps});
  }
  /// x̄(g, w)
  Tensor input_gradient(const Tensor& g, const Tensor& weight) const {
    return folded(matmul(transpose(matrix(weight)), g));
  }
};

}  // namespace

TEST_CASE("derivations: the gradient of a convolution") {
  const ConvolutionCase in;
  const Tensor columns = patches(in.x), w = in.matrix(in.w);
  check_step("(1)", matmul(w, columns) + in.b.unsqueeze(1), conv1d(in.x, in.w, in.b, kOptions));
  check_step("(2) of W", in.weight_gradient(in.dy, in.x),
             tape_gradient(in.w, [&](const Tensor& x) { return loss_of(conv1d(in.x, x, in.b, kOptions), in.dy); }));
  check_step("(2) of X", matmul(transpose(w), in.dy),
             tape_gradient(columns, [&](const Tensor& x) { return loss_of(matmul(w, x), in.dy); }));
  check_step("(2) of b", sum(in.dy, {0, 2}),
             tape_gradient(in.b, [&](const Tensor& x) { return loss_of(conv1d(in.x, in.w, x, kOptions), in.dy); }));
  const Tensor dx = in.input_gradient(in.dy, in.w);
  check_step("(3)", dx,
             tape_gradient(in.x, [&](const Tensor& x) { return loss_of(conv1d(x, in.w, in.b, kOptions), in.dy); }));

  const Tensor product = loss_of(conv1d(in.x, in.w, {}, kOptions), in.dy);
  check_step("(4), by x", loss_of(in.x, dx), product);
  check_step("(4), by w", loss_of(in.w, in.weight_gradient(in.dy, in.x)), product);
  const Tensor h_x = uniform(in.x.shape(), 5), h_w = uniform(in.w.shape(), 6);
  const Tensor x = in.x.detach().set_requires_grad(), weight = in.w.detach().set_requires_grad();
  const Tensor g = in.dy.detach().set_requires_grad();
  const std::vector<Tensor> first =
      grad({loss_of(conv1d(x, weight, {}, kOptions), g)}, {x, weight}, {.create_graph = true});
  const std::vector<Tensor> by_x = grad({loss_of(first[0], h_x)}, {g, weight}, {.retain = true});
  check_step("(4), of x by g", conv1d(h_x, in.w, {}, kOptions), by_x[0]);
  check_step("(4), of x by w", in.weight_gradient(in.dy, h_x), by_x[1]);
  const std::vector<Tensor> by_w = grad({loss_of(first[1], h_w)}, {g, x});
  check_step("(4), of w by g", conv1d(in.x, h_w, {}, kOptions), by_w[0]);
  check_step("(4), of w by x", in.input_gradient(in.dy, h_w), by_w[1]);
}

TEST_CASE("derivations: the gradient of a short convolution") {
  constexpr int64_t kTokens = 9, kChannels = 3, kWidth = 4;
  const Tensor x = uniform({kBatch, kTokens, kChannels}, 1), w = uniform({kChannels, kWidth}, 2);
  const Tensor dy = uniform(x.shape(), 3), zero = zeros({kBatch, kChannels}, DType::float64);
  const Tensor padding_mask = ge(arange(kTokens), tensor(std::vector<int64_t>{0, 2}).reshape({2, 1}));
  const Tensor m = padding_mask.to(DType::float64).unsqueeze(-1);
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const ShortConvOptions options{.causal = causal, .padding_mask = padding_mask};
    const int64_t before = causal ? kWidth - 1 : (kWidth - 1) / 2;
    const auto token = [&](const Tensor& of, int64_t i) { return i < 0 || i >= kTokens ? zero : of.select(1, i); };
    std::vector<Tensor> y, dx, dw;
    for (int64_t i = 0; i < kTokens; ++i) {
      y.push_back(x.select(1, i));
      dx.push_back(dy.select(1, i));
      for (int64_t t = 0; t < kWidth; ++t) {
        y.back() = y.back() + w.select(1, t) * token(m * x, i + t - before);
        dx.back() = dx.back() + m.select(1, i) * w.select(1, t) * token(dy, i - t + before);
      }
    }
    for (int64_t t = 0; t < kWidth; ++t) {
      dw.push_back(zeros({kChannels}, DType::float64));
      for (int64_t j = 0; j < kTokens; ++j) {
        dw.back() = dw.back() + sum(m.select(1, j) * x.select(1, j) * token(dy, j - t + before), {0});
      }
    }
    check_step("(5)", stack(y, 1), short_conv(x, w, options));
    check_step("(6) of x", stack(dx, 1),
               tape_gradient(x, [&](const Tensor& a) { return loss_of(short_conv(a, w, options), dy); }));
    check_step("(6) of w", stack(dw, 1),
               tape_gradient(w, [&](const Tensor& a) { return loss_of(short_conv(x, a, options), dy); }));
  }
}

TEST_CASE("derivations: the gradients of pooling") {
  constexpr int64_t kKernel = 3, kPooled = (kLength - kKernel) / kStride + 1;
  const Tensor x = uniform({kBatch, kIn, kLength}, 1), dy = uniform({kBatch, kIn, kPooled}, 2);
  Tensor of_means = zeros(x.shape(), DType::float64), of_maxima = of_means.clone();
  for (int64_t i = 0; i < kPooled; ++i) {
    const Tensor window = x.narrow(2, i * kStride, kKernel), g = dy.narrow(2, i, 1);
    const Tensor is_largest = one_hot(argmax(window, 2), kKernel, DType::float64);
    const Shape widths{i * kStride, kLength - i * kStride - kKernel};
    of_means = of_means + pad((g / kKernel).expand(window.shape()), widths);
    of_maxima = of_maxima + pad(g * is_largest, widths);
  }
  check_step("(7)", of_means, tape_gradient(x, [&](const Tensor& a) {
               return loss_of(avg_pool1d(a, kKernel, {.stride = kStride}), dy);
             }));
  check_step("(8)", of_maxima, tape_gradient(x, [&](const Tensor& a) {
               return loss_of(max_pool1d(a, kKernel, {.stride = kStride}), dy);
             }));
  const Tensor equal = ones({1, 1, 4}, DType::float64);
  check_step("(8), a tie", tensor(std::vector<double>{2, 0, 3, 0}).reshape({1, 1, 4}),
             tape_gradient(equal, [](const Tensor& a) {
               return loss_of(max_pool1d(a, 2), tensor(std::vector<double>{2, 3}).reshape({1, 1, 2}));
             }));
}
