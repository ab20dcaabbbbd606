#pragma once

#include <optional>

#include <linnet/nn/module.h>

namespace linnet::nn {

/// Options of a LayerNorm, as in PyTorch, where `affine` is elementwise_affine.
struct LayerNormConfig {
  double eps = 1e-5;   ///< added to the variance
  bool affine = true;  ///< whether it has parameters: `weight`, and a `bias` unless `bias` is false
  bool bias = true;    ///< whether it has a bias, where affine
};

/// Layer normalisation over the last dim. The parameters `weight` and `bias` [width] start as ones and zeros.
///
/// Source: Ba et al. 2016.
class LayerNorm : public Module {
 public:
  /// Throws: ValueError for a width below 1.
  LayerNorm(Module& parent, std::string name, int64_t width, LayerNormConfig config = {});
  template <NotAModule First, class... Rest>
  LayerNorm(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [..., width] → [..., width].
  /// Throws: ShapeError for another last dim.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  const Tensor& weight() const { return weight_; }  ///< undefined when there is none
  const Tensor& bias() const { return bias_; }      ///< undefined when there is none

  std::vector<Setting> settings() const override;

 private:
  int64_t width_;
  double eps_;
  Tensor weight_, bias_;
};

/// Root-mean-square normalisation over the last dim. The parameter `weight` [width] starts as ones. The default `eps`
/// is that of rms_norm, which differs from PyTorch's.
///
/// Source: Zhang & Sennrich 2019.
class RMSNorm : public Module {
 public:
  /// Throws: ValueError for a width below 1.
  RMSNorm(Module& parent, std::string name, int64_t width, double eps = 1e-6);
  template <NotAModule First, class... Rest>
  RMSNorm(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [..., width] → [..., width].
  /// Throws: ShapeError for another last dim.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  const Tensor& weight() const { return weight_; }  ///< [width]

  std::vector<Setting> settings() const override;

 private:
  double eps_;
  Tensor weight_;
};

/// Options of a BatchNorm1d or BatchNorm2d, as in PyTorch.
struct BatchNormConfig {
  double eps = 1e-5;                     ///< added to the variance
  std::optional<double> momentum = 0.1;  ///< how much a batch counts in running statistics; nullopt: all equally
  bool affine = true;                    ///< whether it has parameters: `weight`, and a `bias` unless `bias` is false
  bool track_running_stats = true;       ///< if false, evaluation also normalises by the batch's own statistics
  bool bias = true;                      ///< whether it has a bias, where affine
};

/// A layer for batch_norm. The parameters `weight` and `bias` [num_features] start as ones and zeros. The buffers
/// `running_mean` and `running_var` [num_features] start as zeros and ones, and `num_batches_tracked` [] as 0. Each
/// call in training updates them, and evaluation normalises by them.
///
/// Source: Ioffe & Szegedy 2015.
class BatchNorm : public Module {
 public:
  /// Shapes: x → the same, [N, C] or [N, C, L] of a BatchNorm1d, [N, C, H, W] of a BatchNorm2d, C being num_features.
  /// Throws: ShapeError for other shapes, such as channels last; ValueError as batch_norm.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  const Tensor& weight() const { return weight_; }              ///< undefined when there is none
  const Tensor& bias() const { return bias_; }                  ///< undefined when there is none
  const Tensor& running_mean() const { return running_mean_; }  ///< undefined without running statistics
  const Tensor& running_var() const { return running_var_; }    ///< undefined without running statistics

  std::vector<Setting> settings() const override;

 protected:
  /// Throws: ValueError for num_features below 1.
  BatchNorm(Module& parent, std::string name, bool of_images, int64_t num_features, const BatchNormConfig& config);
  template <NotAModule First>
  explicit BatchNorm(First&& first) : Module(refuse_outside_of_a_module(first)) {}

 private:
  bool of_images_ = false;
  int64_t num_features_ = 0;
  BatchNormConfig config_;
  Tensor weight_, bias_, running_mean_, running_var_, num_batches_tracked_;
};

/// Batch normalisation of rows [N, C] or signals [N, C, L].
class BatchNorm1d : public BatchNorm {
 public:
  BatchNorm1d(Module& parent, std::string name, int64_t num_features, const BatchNormConfig& config = {})
      : BatchNorm(parent, std::move(name), false, num_features, config) {}
  template <NotAModule First, class... Rest>
  BatchNorm1d(First&& first, Rest&&...) : BatchNorm(first) {}
};

/// Batch normalisation of images [N, C, H, W].
class BatchNorm2d : public BatchNorm {
 public:
  BatchNorm2d(Module& parent, std::string name, int64_t num_features, const BatchNormConfig& config = {})
      : BatchNorm(parent, std::move(name), true, num_features, config) {}
  template <NotAModule First, class... Rest>
  BatchNorm2d(First&& first, Rest&&...) : BatchNorm(first) {}
};

/// Options of a GroupNorm, as in PyTorch.
struct GroupNormConfig {
  double eps = 1e-5;   ///< added to the variance
  bool affine = true;  ///< whether it has parameters: `weight`, and a `bias` unless `bias` is false
  bool bias = true;    ///< whether it has a bias, where affine
};

/// A layer for group_norm. The parameters `weight` and `bias` [num_channels] start as ones and zeros.
///
/// Source: Wu & He 2018.
class GroupNorm : public Module {
 public:
  /// Throws: ValueError for numbers below 1, and unless num_channels is a multiple of num_groups.
  GroupNorm(Module& parent, std::string name, int64_t num_groups, int64_t num_channels,
            const GroupNormConfig& config = {});
  template <NotAModule First, class... Rest>
  GroupNorm(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [N, C, …] → the same, C being num_channels.
  /// Throws: ShapeError for other shapes, such as channels last.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  const Tensor& weight() const { return weight_; }  ///< undefined when there is none
  const Tensor& bias() const { return bias_; }      ///< undefined when there is none

  std::vector<Setting> settings() const override;

 private:
  int64_t num_groups_ = 0, num_channels_ = 0;
  double eps_ = 0;
  Tensor weight_, bias_;
};

}  // namespace linnet::nn
