#pragma once

#include <linnet/nn/module.h>

namespace linnet::nn {

/// What a LayerNorm has.
struct LayerNormConfig {
  double eps = 1e-5;
  bool affine = true;  ///< has a gain `weight` and a `bias`
  bool bias = true;    ///< of the two, whether it has the bias
};

/// Layer normalisation over the last dimension (Ba et al. 2016), with parameters `weight` and `bias` [width],
/// which start as ones and zeros.
class LayerNorm : public Module {
 public:
  /// Throws ValueError for a width below 1.
  LayerNorm(Module& parent, std::string name, int64_t width, LayerNormConfig config = {});
  template <NotAModule First, class... Rest>
  LayerNorm(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// [..., width] → [..., width]. Throws ShapeError for another last dim.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  int64_t width_;
  double eps_;
  Tensor weight_, bias_;
};

/// Root-mean-square normalisation over the last dimension (Zhang & Sennrich 2019), with a parameter `weight`
/// [width], which starts as ones.
class RMSNorm : public Module {
 public:
  /// Throws ValueError for a width below 1.
  RMSNorm(Module& parent, std::string name, int64_t width, double eps = 1e-6);
  template <NotAModule First, class... Rest>
  RMSNorm(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// [..., width] → [..., width]. Throws ShapeError for another last dim.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  double eps_;
  Tensor weight_;
};

}  // namespace linnet::nn
