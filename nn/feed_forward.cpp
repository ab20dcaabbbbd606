#include <linnet/nn/feed_forward.h>

#include <linnet/ops/activation.h>

namespace linnet::nn {

FeedForward::FeedForward(Module& parent, std::string name, int64_t width, int64_t hidden, bool bias)
    : Module(parent, std::move(name)),
      fc1_(*this, "fc1", width, hidden, bias),
      fc2_(*this, "fc2", hidden, width, bias) {}

Tensor FeedForward::operator()(const Tensor& x, Where where) const {
  return fc2_(gelu(fc1_(x, where), Gelu::erf, where), where);
}

}  // namespace linnet::nn
