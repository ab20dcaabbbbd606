#include <linnet/nn/layers/short_convolution.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/nn/init.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/layers/short_conv.h>

namespace linnet::nn {

ShortConvolution::ShortConvolution(Module& parent, std::string name, int64_t channels, int64_t taps, bool causal)
    : Module(parent, std::move(name), fmt::format("short convolution, {} channels, {} taps", channels, taps)),
      taps_(taps),
      causal_(causal) {
  if (channels < 1 || taps < 1) throw ValueError(fmt::format("{}: both must be at least 1", label()));
  weight_ = parameter("weight", Tensor::empty({channels, taps}, dtype(), device()));
  const double bound = 1 / std::sqrt(static_cast<double>(taps));
  init::uniform_(weight_, generator(), -bound, bound);
}

Tensor ShortConvolution::operator()(const Tensor& h, const Tensor& padding_mask, Where where) const {
  const Call call(label(), where);
  return short_conv(h, weight_, {.causal = causal_, .padding_mask = padding_mask});
}

Tensor ShortConvolution::step(State& state, const Tensor& h, Where where) const {
  const Call call(label(), where);
  const Tensor window = state.past.defined() ? concat({state.past, h}, 1) : h;
  const int64_t tokens = window.size(1), kept = std::min(tokens, taps_ - 1);
  state.past = window.narrow(1, tokens - kept, kept);
  return short_conv(window, weight_, {.causal = true}).narrow(1, tokens - 1, 1);
}

std::vector<Setting> ShortConvolution::settings() const { return {{"causal", causal_}}; }

}  // namespace linnet::nn
