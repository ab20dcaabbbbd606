#pragma once

#include <linnet/nn/module.h>

namespace linnet::nn {

/// y = x·Wᵀ + b. The parameters `weight` [out, in] and `bias` [out] start as U(−1/√in, 1/√in), as in PyTorch.
class Linear : public Module {
 public:
  /// Throws: ValueError for sizes below 1.
  Linear(Module& parent, std::string name, int64_t in, int64_t out, bool bias = true);
  template <NotAModule First, class... Rest>
  Linear(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [..., in] → [..., out].
  /// Dtypes: the parameters' dtype, or bfloat16 with float32 parameters.
  /// Cost: 2·in·out operations for each row.
  /// Throws: ShapeError, DTypeError.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  const Tensor& weight() const { return weight_; }  ///< [out, in]
  const Tensor& bias() const { return bias_; }      ///< undefined when there is none

 private:
  Tensor weight_, bias_;
};

}  // namespace linnet::nn
