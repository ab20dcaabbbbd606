#pragma once

#include <linnet/nn/module.h>

namespace linnet::nn {

/// Options of a LayerNorm.
struct LayerNormConfig {
  double eps = 1e-5;
  bool affine = true;  ///< whether it has parameters: a gain `weight`, and a `bias` unless `bias` is false
  bool bias = true;
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

  std::vector<Setting> settings() const override;

 private:
  int64_t width_;
  double eps_;
  Tensor weight_, bias_;
};

/// Root-mean-square normalisation over the last dim. The parameter `weight` [width] starts as ones.
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

  std::vector<Setting> settings() const override;

 private:
  double eps_;
  Tensor weight_;
};

}  // namespace linnet::nn
