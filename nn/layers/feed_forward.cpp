#include <linnet/nn/layers/feed_forward.h>

#include <fmt/format.h>

namespace linnet::nn {

FeedForward::FeedForward(Module& parent, std::string name, int64_t width, int64_t hidden, bool bias, Gelu kind,
                         double dropout)
    : Module(parent, std::move(name)),
      fc1_(*this, "fc1", width, hidden, bias),
      dropout_(*this, "dropout", dropout),
      fc2_(*this, "fc2", hidden, width, bias),
      kind_(kind) {}

Tensor FeedForward::operator()(const Tensor& x, Where where) const {
  return fc2_(dropout_(gelu(fc1_(x, where), kind_, where), where), where);
}

std::vector<Setting> FeedForward::settings() const { return {{"gelu", kind_ == Gelu::tanh ? "tanh" : "erf"}}; }

}  // namespace linnet::nn
