#pragma once

#include <linnet/nn/linear.h>

namespace linnet::nn {

/// fc2(gelu(fc1(x))), with `fc1` width→hidden and `fc2` hidden→width (Vaswani et al. 2017, eq. 2, with GELU).
class FeedForward : public Module {
 public:
  FeedForward(Module& parent, std::string name, int64_t width, int64_t hidden, bool bias = true);

  /// [..., width] → [..., width]
  Tensor operator()(const Tensor& x, Where where = {}) const;

 private:
  Linear fc1_, fc2_;
};

}  // namespace linnet::nn
