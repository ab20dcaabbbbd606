#include <linnet/ops/layers/convolution.h>
#include <linnet/ops/layers/pooling.h>

#include "tests/support/op_case.h"
#include "tests/support/values.h"

namespace linnet::test {
namespace {

using Inputs = std::vector<Tensor>;

/// x, weight, and a bias for `outputs` channels if that is not 0.
Inputs draw_convolution(const Shape& x, const Shape& weight, int64_t outputs) {
  Inputs inputs{uniform(x, 71), uniform(weight, 72)};
  if (outputs > 0) inputs.push_back(uniform({outputs}, 73));
  return inputs;
}

Tensor bias_of(const Inputs& in) { return in.size() > 2 ? in[2] : Tensor(); }

void add_convolutions(Registry& registry) {
  const auto conv = [&](const std::string& variant, const Shape& x, const Shape& weight, const Conv2dOptions& options,
                        bool bias = true) {
    registry.differentiable.push_back(
        {"conv2d", variant, draw_convolution(x, weight, bias ? weight[0] : 0),
         [options](const Inputs& in) { return conv2d(in[0], in[1], bias_of(in), options); }});
  };
  conv("plain", {2, 3, 4, 5}, {2, 3, 3, 2}, {});
  conv("no bias", {2, 2, 3, 3}, {3, 2, 2, 2}, {}, false);
  conv("stride and padding", {2, 2, 5, 4}, {3, 2, 3, 3}, {.stride = {2, 3}, .padding = {1, 2}});
  conv("dilation", {1, 2, 6, 5}, {2, 2, 3, 2}, {.padding = 1, .dilation = {2, 3}});
  conv("groups", {2, 4, 3, 4}, {6, 2, 2, 3}, {.padding = 1, .groups = 2});
  conv("same, even kernel", {1, 2, 4, 3}, {2, 2, 2, 4}, {.padding = "same"});
  conv("size 1", {1, 1, 1, 1}, {1, 1, 1, 1}, {});
  conv("no images", {0, 2, 4, 4}, {3, 2, 3, 3}, {});
  registry.differentiable.push_back({"conv1d", "stride, padding, dilation, groups",
                                     draw_convolution({2, 4, 7}, {6, 2, 3}, 6), [](const Inputs& in) {
                                       return conv1d(in[0], in[1], in[2],
                                                     {.stride = 2, .padding = 2, .dilation = 2, .groups = 2});
                                     }});
  for (const Shape& shape : {Shape{1, 2, 5}, Shape{0, 2, 5}}) {
    registry.differentiable.push_back(
        {"conv1d", "same, " + to_string(shape), draw_convolution(shape, {3, 2, 4}, 0),
         [](const Inputs& in) { return conv1d(in[0], in[1], {}, {.padding = "same"}); }});
  }
  const auto transposed = [&](const std::string& variant, const Shape& x, const Shape& weight,
                              const ConvTranspose2dOptions& options) {
    registry.differentiable.push_back(
        {"conv_transpose2d", variant, draw_convolution(x, weight, weight[1] * options.groups),
         [options](const Inputs& in) { return conv_transpose2d(in[0], in[1], bias_of(in), options); }});
  };
  transposed("plain", {2, 3, 3, 2}, {3, 2, 2, 3}, {});
  transposed("all options", {1, 4, 2, 3}, {4, 1, 3, 3},
             {.stride = {2, 3}, .padding = {1, 2}, .output_padding = {1, 2}, .groups = 2, .dilation = {2, 1}});
  transposed("no images", {0, 2, 3, 3}, {2, 2, 3, 3}, {});
}

void add_poolings(Registry& registry) {
  const auto add = [&](const std::string& op, const std::string& variant, const Shape& shape,
                       std::function<Tensor(const Tensor&)> f) {
    // All numbers are different, at least 0.1 apart, in a mixed order, so that no window has two largest ones.
    Tensor x = counting(shape);
    for (double& value : x.mutable_data<double>())
      value = 0.1 * static_cast<double>(static_cast<int64_t>(value) * 37 % 101);
    registry.differentiable.push_back({op, variant, {x}, [f = std::move(f)](const Inputs& in) { return f(in[0]); }});
  };
  add("max_pool2d", "halving", {2, 2, 4, 6}, [](auto& x) { return max_pool2d(x, 2); });
  add("max_pool2d", "overlapping, padded", {1, 2, 5, 6},
      [](auto& x) { return max_pool2d(x, {3, 2}, {.stride = Size2d{2, 1}, .padding = {1, 1}}); });
  add("max_pool2d", "dilated", {1, 1, 6, 5},
      [](auto& x) { return max_pool2d(x, 2, {.stride = 1, .dilation = {3, 2}}); });
  add("max_pool2d", "size 1", {1, 1, 1, 1}, [](auto& x) { return max_pool2d(x, 1); });
  add("max_pool2d", "no images", {0, 2, 4, 4}, [](auto& x) { return max_pool2d(x, 2); });
  add("avg_pool2d", "halving", {2, 2, 4, 6}, [](auto& x) { return avg_pool2d(x, 2); });
  add("avg_pool2d", "overlapping, padded", {1, 2, 5, 6},
      [](auto& x) { return avg_pool2d(x, {3, 2}, {.stride = Size2d{2, 1}, .padding = {1, 1}}); });
  add("avg_pool2d", "no images", {0, 2, 4, 4}, [](auto& x) { return avg_pool2d(x, 2); });
  for (const Shape& shape : {Shape{2, 2, 7}, Shape{1, 1, 3}, Shape{0, 2, 3}}) {
    add("max_pool1d", "overlapping, padded " + to_string(shape), shape,
        [](auto& x) { return max_pool1d(x, 3, {.stride = 2, .padding = 1}); });
    add("avg_pool1d", "overlapping, padded " + to_string(shape), shape,
        [](auto& x) { return avg_pool1d(x, 3, {.stride = 2, .padding = 1}); });
  }
}

}  // namespace

void add_convolution_cases(Registry& registry) {
  add_convolutions(registry);
  add_poolings(registry);
}

}  // namespace linnet::test
