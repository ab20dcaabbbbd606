#pragma once

#include <linnet/nn/module.h>

namespace linnet::nn {

/// In training, sets each element to 0 with probability `rate`, PyTorch's p, and scales the others by 1/(1 − rate); a
/// rate of 1 sets all to 0. In evaluation it changes nothing.
class Dropout : public Module {
 public:
  /// Throws: ValueError unless 0 ≤ rate ≤ 1.
  Dropout(Module& parent, std::string name, double rate);
  template <NotAModule First, class... Rest>
  Dropout(First&& first, Rest&&...) : Module(refuse_outside_of_a_module(first)) {}

  /// Applies dropout to x of any shape. In training it takes one draw from the model's generator.
  Tensor operator()(const Tensor& x, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  double rate_;
};

}  // namespace linnet::nn
