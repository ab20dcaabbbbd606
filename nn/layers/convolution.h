#pragma once

#include <linnet/nn/module.h>
#include <linnet/ops/array/vision.h>
#include <linnet/ops/layers/convolution.h>
#include <linnet/ops/layers/pooling.h>

namespace linnet::nn {

/// Options of a Conv2d, as in PyTorch.
struct Conv2dConfig {
  Size2d stride = 1;       ///< from one window to the next
  Padding2d padding = {};  ///< a number, {rows, columns} or "same"
  Size2d dilation = 1;     ///< the distance of neighbouring taps
  int64_t groups = 1;      ///< an output channel sees only the input channels of its group
  bool bias = true;        ///< whether it has a bias
};

/// A layer for conv2d. The parameters `weight` [out, in/groups, R, S] and `bias` [out] start as U(−1/√fan, 1/√fan),
/// fan = in/groups·R·S, as in PyTorch.
class Conv2d : public Module {
 public:
  /// Throws: ValueError for sizes below 1, and for channels that are not a multiple of the groups.
  Conv2d(Module& parent, std::string name, int64_t in, int64_t out, Size2d kernel, const Conv2dConfig& config = {});
  template <NotAModule First, class... Rest>
  Conv2d(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [B, in, H, W] → [B, out, H', W'], as conv2d.
  /// Throws: as conv2d.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  std::vector<Setting> settings() const override;

  const Tensor& weight() const { return weight_; }  ///< of the shape above
  const Tensor& bias() const { return bias_; }      ///< undefined when there is none

 private:
  Conv2dOptions options_;
  Tensor weight_, bias_;
};

/// Options of a Conv1d.
struct Conv1dConfig {
  int64_t stride = 1;      ///< from one window to the next
  Padding2d padding = {};  ///< a number or "same"
  int64_t dilation = 1;    ///< the distance of neighbouring taps
  int64_t groups = 1;      ///< an output channel sees only the input channels of its group
  bool bias = true;        ///< whether it has a bias
};

/// Conv2d along one dim: `weight` [out, in/groups, S].
class Conv1d : public Module {
 public:
  /// Throws: as Conv2d.
  Conv1d(Module& parent, std::string name, int64_t in, int64_t out, int64_t kernel, const Conv1dConfig& config = {});
  template <NotAModule First, class... Rest>
  Conv1d(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [B, in, L] → [B, out, L'], as conv1d.
  /// Throws: as conv1d.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  const Tensor& weight() const { return weight_; }  ///< of the shape above
  const Tensor& bias() const { return bias_; }      ///< undefined when there is none

  std::vector<Setting> settings() const override;

 private:
  Conv1dOptions options_;
  Tensor weight_, bias_;
};

/// Options of a ConvTranspose2d, as in PyTorch.
struct ConvTranspose2dConfig {
  Size2d stride = 1;          ///< from one window to the next
  Size2d padding = 0;         ///< rows and columns that are cut off the output on each side
  Size2d output_padding = 0;  ///< added to the output's size at its end
  int64_t groups = 1;         ///< an output channel sees only the input channels of its group
  bool bias = true;           ///< whether it has a bias
  Size2d dilation = 1;        ///< the distance of neighbouring taps
};

/// A layer for conv_transpose2d. The parameters `weight` [in, out/groups, R, S] and `bias` [out] start as
/// U(−1/√fan, 1/√fan), fan = out/groups·R·S, as in PyTorch.
class ConvTranspose2d : public Module {
 public:
  /// Throws: as Conv2d.
  ConvTranspose2d(Module& parent, std::string name, int64_t in, int64_t out, Size2d kernel,
                  const ConvTranspose2dConfig& config = {});
  template <NotAModule First, class... Rest>
  ConvTranspose2d(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [B, in, H, W] → [B, out, H', W'], as conv_transpose2d.
  /// Throws: as conv_transpose2d.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  const Tensor& weight() const { return weight_; }  ///< of the shape above
  const Tensor& bias() const { return bias_; }      ///< undefined when there is none

  std::vector<Setting> settings() const override;

 private:
  ConvTranspose2dOptions options_;
  Tensor weight_, bias_;
};

/// max_pool2d as a layer, for a Sequential. It has no parameters.
class MaxPool2d : public Module {
 public:
  MaxPool2d(Module& parent, std::string name, Size2d kernel, const Pool2dOptions& options = {});
  template <NotAModule First, class... Rest>
  MaxPool2d(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [B, C, H, W] → [B, C, H', W'], as max_pool2d.
  /// Throws: as max_pool2d.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  Size2d kernel_;
  Pool2dOptions options_;
};

/// avg_pool2d as a layer, for a Sequential. It has no parameters.
class AvgPool2d : public Module {
 public:
  AvgPool2d(Module& parent, std::string name, Size2d kernel, const Pool2dOptions& options = {});
  template <NotAModule First, class... Rest>
  AvgPool2d(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [B, C, H, W] → [B, C, H', W'], as avg_pool2d.
  /// Throws: as avg_pool2d.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  Size2d kernel_;
  Pool2dOptions options_;
};

/// adaptive_avg_pool2d as a layer, for a Sequential. It has no parameters.
class AdaptiveAvgPool2d : public Module {
 public:
  AdaptiveAvgPool2d(Module& parent, std::string name, Size2d output_size);
  template <NotAModule First, class... Rest>
  AdaptiveAvgPool2d(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [B, C, H, W] → [B, C, H', W'], as adaptive_avg_pool2d.
  /// Throws: as adaptive_avg_pool2d.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  Size2d output_size_;
};

/// interpolate as a layer, for a Sequential. It has no parameters.
class Upsample : public Module {
 public:
  Upsample(Module& parent, std::string name, InterpolateOptions options);
  template <NotAModule First, class... Rest>
  Upsample(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [B, C, ...] → [B, C, ...], as interpolate.
  /// Throws: as interpolate.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  InterpolateOptions options_;
};

}  // namespace linnet::nn
