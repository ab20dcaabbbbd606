#pragma once

#include <linnet/nn/layers/dropout.h>
#include <linnet/nn/layers/linear.h>
#include <linnet/ops/layers/activation.h>

namespace linnet::nn {

/// fc2(dropout(gelu(fc1(x)))), with submodules `fc1` width→hidden, `dropout` and `fc2` hidden→width.
///
/// Source: Vaswani et al. 2017, eq. 2, with GELU in place of ReLU.
class FeedForward : public Module {
 public:
  /// Throws: ValueError for sizes below 1, and for a dropout outside [0, 1].
  FeedForward(Module& parent, std::string name, int64_t width, int64_t hidden, bool bias = true,
              Gelu kind = Gelu::erf, double dropout = 0);
  template <NotAModule First, class... Rest>
  FeedForward(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [..., width] → [..., width].
  Tensor operator()(const Tensor& x, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  Linear fc1_;
  Dropout dropout_;
  Linear fc2_;
  Gelu kind_;
};

}  // namespace linnet::nn
