#include <linnet/nn/layers/norm.h>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/layers/normalisation.h>

namespace linnet::nn {

LayerNorm::LayerNorm(Module& parent, std::string name, int64_t width, LayerNormConfig config)
    : Module(parent, std::move(name), fmt::format("LayerNorm {}", width)), width_(width), eps_(config.eps) {
  if (width < 1) throw ValueError(fmt::format("{}: the width must be at least 1", label()));
  if (!config.affine) return;
  weight_ = parameter("weight", ones({width}, dtype(), device()));
  if (config.bias) bias_ = parameter("bias", zeros({width}, dtype(), device()));
}

Tensor LayerNorm::operator()(const Tensor& x, Where where) const {
  const Call call(label(), where);
  if (x.rank() == 0 || x.size(-1) != width_) {  // without parameters the op cannot check this
    throw ShapeError(fmt::format("x{} should end in {}", to_string(x.shape()), width_));
  }
  return layer_norm(x, weight_, bias_, eps_);
}

RMSNorm::RMSNorm(Module& parent, std::string name, int64_t width, double eps)
    : Module(parent, std::move(name), fmt::format("RMSNorm {}", width)), eps_(eps) {
  if (width < 1) throw ValueError(fmt::format("{}: the width must be at least 1", label()));
  weight_ = parameter("weight", ones({width}, dtype(), device()));
}

Tensor RMSNorm::operator()(const Tensor& x, Where where) const {
  const Call call(label(), where);
  return rms_norm(x, weight_, eps_);
}

std::vector<Setting> LayerNorm::settings() const { return {{"eps", eps_}}; }
std::vector<Setting> RMSNorm::settings() const { return {{"eps", eps_}}; }

}  // namespace linnet::nn
