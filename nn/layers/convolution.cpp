#include <linnet/nn/layers/convolution.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <linnet/core/error.h>
#include <linnet/nn/init.h>

namespace linnet::nn {
namespace {

std::string shown(Size2d size) {
  return size.height == size.width ? fmt::format("{}", size.height) : fmt::format("{}×{}", size.height, size.width);
}

std::string shown(const Padding2d& padding) { return padding.same ? "same" : shown(padding.size); }

/// "Conv2d 3→8, kernel 5"
std::string label_of(const char* layer, int64_t in, int64_t out, Size2d kernel) {
  return fmt::format("{} {}→{}, kernel {}", layer, in, out, shown(kernel));
}

void check_sizes(const std::string& label, int64_t in, int64_t out, Size2d kernel, int64_t groups) {
  if (in < 1 || out < 1 || kernel.height < 1 || kernel.width < 1) {
    throw ValueError(fmt::format("{}: sizes must be at least 1", label));
  }
  if (groups < 1 || in % groups != 0 || out % groups != 0) {
    throw ValueError(fmt::format("{}: both numbers of channels must be multiples of groups, {}", label, groups));
  }
}

std::vector<Setting> pool_settings(Size2d kernel, const Pool2dOptions& options) {
  return {{"kernel", shown(kernel)},
          {"stride", shown(options.stride.value_or(kernel))},
          {"padding", shown(options.padding)},
          {"dilation", shown(options.dilation)}};
}

}  // namespace

Conv2d::Conv2d(Module& parent, std::string name, int64_t in, int64_t out, Size2d kernel, const Conv2dConfig& config)
    : Module(parent, std::move(name), label_of("Conv2d", in, out, kernel)),
      options_{config.stride, config.padding, config.dilation, config.groups} {
  check_sizes(label(), in, out, kernel, config.groups);
  weight_ =
      parameter("weight", Tensor::empty({out, in / config.groups, kernel.height, kernel.width}, dtype(), device()));
  if (config.bias) bias_ = parameter("bias", Tensor::empty({out}, dtype(), device()));
  init::fan_in_uniform_(weight_, bias_, generator());
}

Tensor Conv2d::operator()(const Tensor& x, Where where) const {
  const Call call(label(), where);
  return conv2d(x, weight_, bias_, options_);
}

std::vector<Setting> Conv2d::settings() const {
  return {{"stride", shown(options_.stride)},
          {"padding", shown(options_.padding)},
          {"dilation", shown(options_.dilation)},
          {"groups", options_.groups}};
}

Conv1d::Conv1d(Module& parent, std::string name, int64_t in, int64_t out, int64_t kernel, const Conv1dConfig& config)
    : Module(parent, std::move(name), label_of("Conv1d", in, out, kernel)),
      options_{config.stride, config.padding, config.dilation, config.groups} {
  check_sizes(label(), in, out, kernel, config.groups);
  weight_ = parameter("weight", Tensor::empty({out, in / config.groups, kernel}, dtype(), device()));
  if (config.bias) bias_ = parameter("bias", Tensor::empty({out}, dtype(), device()));
  init::fan_in_uniform_(weight_, bias_, generator());
}

Tensor Conv1d::operator()(const Tensor& x, Where where) const {
  const Call call(label(), where);
  return conv1d(x, weight_, bias_, options_);
}

std::vector<Setting> Conv1d::settings() const {
  return {{"stride", options_.stride},
          {"padding", shown(options_.padding)},
          {"dilation", options_.dilation},
          {"groups", options_.groups}};
}

ConvTranspose2d::ConvTranspose2d(Module& parent, std::string name, int64_t in, int64_t out, Size2d kernel,
                                 const ConvTranspose2dConfig& config)
    : Module(parent, std::move(name), label_of("ConvTranspose2d", in, out, kernel)),
      options_{config.stride, config.padding, config.output_padding, config.groups, config.dilation} {
  check_sizes(label(), in, out, kernel, config.groups);
  weight_ =
      parameter("weight", Tensor::empty({in, out / config.groups, kernel.height, kernel.width}, dtype(), device()));
  if (config.bias) bias_ = parameter("bias", Tensor::empty({out}, dtype(), device()));
  init::fan_in_uniform_(weight_, bias_, generator());
}

Tensor ConvTranspose2d::operator()(const Tensor& x, Where where) const {
  const Call call(label(), where);
  return conv_transpose2d(x, weight_, bias_, options_);
}

std::vector<Setting> ConvTranspose2d::settings() const {
  return {{"stride", shown(options_.stride)},
          {"padding", shown(options_.padding)},
          {"output_padding", shown(options_.output_padding)},
          {"groups", options_.groups},
          {"dilation", shown(options_.dilation)}};
}

MaxPool2d::MaxPool2d(Module& parent, std::string name, Size2d kernel, const Pool2dOptions& options)
    : Module(parent, std::move(name), fmt::format("MaxPool2d, kernel {}", shown(kernel))),
      kernel_(kernel),
      options_(options) {}

Tensor MaxPool2d::operator()(const Tensor& x, Where where) const { return max_pool2d(x, kernel_, options_, where); }

std::vector<Setting> MaxPool2d::settings() const { return pool_settings(kernel_, options_); }

AvgPool2d::AvgPool2d(Module& parent, std::string name, Size2d kernel, const Pool2dOptions& options)
    : Module(parent, std::move(name), fmt::format("AvgPool2d, kernel {}", shown(kernel))),
      kernel_(kernel),
      options_(options) {}

Tensor AvgPool2d::operator()(const Tensor& x, Where where) const { return avg_pool2d(x, kernel_, options_, where); }

std::vector<Setting> AvgPool2d::settings() const { return pool_settings(kernel_, options_); }

AdaptiveAvgPool2d::AdaptiveAvgPool2d(Module& parent, std::string name, Size2d output_size)
    : Module(parent, std::move(name), fmt::format("AdaptiveAvgPool2d, output_size {}", shown(output_size))),
      output_size_(output_size) {}

Tensor AdaptiveAvgPool2d::operator()(const Tensor& x, Where where) const {
  return adaptive_avg_pool2d(x, output_size_, where);
}

std::vector<Setting> AdaptiveAvgPool2d::settings() const { return {{"output_size", shown(output_size_)}}; }

Upsample::Upsample(Module& parent, std::string name, InterpolateOptions options)
    : Module(parent, std::move(name), "Upsample"), options_(std::move(options)) {}

Tensor Upsample::operator()(const Tensor& x, Where where) const { return interpolate(x, options_, where); }

std::vector<Setting> Upsample::settings() const {
  return {{"size", fmt::format("{}", fmt::join(options_.size, ", "))},
          {"scale_factor", fmt::format("{}", fmt::join(options_.scale_factor, ", "))},
          {"mode", static_cast<int>(options_.mode)},
          {"align_corners", options_.align_corners}};
}

}  // namespace linnet::nn
