#include <linnet/nn/layers/dropout.h>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/random.h>

namespace linnet::nn {

Dropout::Dropout(Module& parent, std::string name, double rate)
    : Module(parent, std::move(name), fmt::format("Dropout {}", rate)), rate_(rate) {
  if (!(rate >= 0 && rate <= 1)) throw ValueError(fmt::format("{}: the rate must be from 0 to 1", label()));
}

Tensor Dropout::operator()(const Tensor& x, Where where) const {
  if (rate_ == 0) return x;
  const Call call(label(), where);
  return dropout(x, rate_, generator(), training());
}

std::vector<Setting> Dropout::settings() const { return {{"rate", rate_, /*may_differ=*/true}}; }

}  // namespace linnet::nn
