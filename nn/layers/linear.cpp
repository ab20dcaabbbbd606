#include <linnet/nn/layers/linear.h>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/init.h>
#include <linnet/ops/matmul/matmul.h>

namespace linnet::nn {

Linear::Linear(Module& parent, std::string name, int64_t in, int64_t out, bool bias)
    : Module(parent, std::move(name), fmt::format("Linear {}→{}", in, out)) {
  if (in < 1 || out < 1) throw ValueError(fmt::format("{}: sizes must be at least 1", label()));
  weight_ = parameter("weight", Tensor::empty({out, in}, dtype(), device()));
  if (bias) bias_ = parameter("bias", Tensor::empty({out}, dtype(), device()));
  init::fan_in_uniform_(weight_, bias_, generator());
}

Tensor Linear::operator()(const Tensor& x, Where where) const {
  const Call call(label(), where);
  return linear(x, weight_, bias_);
}

}  // namespace linnet::nn
