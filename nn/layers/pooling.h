#pragma once

#include <linnet/nn/module.h>
#include <linnet/ops/layers/pooling.h>

namespace linnet::nn {

/// max_pool2d as a layer, for a Sequential. It has no parameters.
class MaxPool2d : public Module {
 public:
  MaxPool2d(Module& parent, std::string name, Size2d kernel, const Pool2dOptions& options = {});

  /// Shapes: x [B, C, H, W] → [B, C, H', W'], as max_pool2d.
  /// Throws: as max_pool2d.
  Tensor operator()(const Tensor& x, Where where = {}) const;

 private:
  Size2d kernel_;
  Pool2dOptions options_;
};

/// avg_pool2d as a layer, for a Sequential. It has no parameters.
class AvgPool2d : public Module {
 public:
  AvgPool2d(Module& parent, std::string name, Size2d kernel, const Pool2dOptions& options = {});

  /// Shapes: x [B, C, H, W] → [B, C, H', W'], as avg_pool2d.
  /// Throws: as avg_pool2d.
  Tensor operator()(const Tensor& x, Where where = {}) const;

 private:
  Size2d kernel_;
  Pool2dOptions options_;
};

}  // namespace linnet::nn
