#pragma once

#include <cmath>
#include <vector>

#include <linnet/nn/optim/optim.h>
#include <linnet/ops/array/creation.h>

namespace linnet::test {

/// One gradient, the same for all.
inline void set_grads(const std::vector<Tensor>& parameters, double value) {
  for (Tensor parameter : parameters) parameter.set_grad(full_like(parameter.detach(), value));
}

/// Steps along a fixed sequence of gradients.
inline void run(nn::Optimizer& optimizer, const std::vector<Tensor>& parameters, int begin, int end) {
  for (int step = begin; step < end; ++step) {
    set_grads(parameters, std::sin(1.0 + step));
    optimizer.step();
  }
}

}  // namespace linnet::test
