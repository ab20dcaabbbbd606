#include <linnet/nn/optim/average.h>

#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/nn/module.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>

namespace linnet::nn {

namespace {

std::vector<Tensor> clones(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> copies;
  copies.reserve(tensors.size());
  for (const Tensor& tensor : tensors) copies.push_back(tensor.detach().clone());
  return copies;
}

void copy_each(std::vector<Tensor>& to, const std::vector<Tensor>& from) {
  const NoGrad guard;
  for (size_t i = 0; i < to.size(); ++i) to[i].copy_(from[i]);
}

}  // namespace

ExponentialMovingAverage::ExponentialMovingAverage(std::vector<Tensor> parameters, double decay)
    : parameters_(std::move(parameters)),
      averages_(clones(parameters_)),
      updated_(scalar(0, DType::boolean)),
      decay_(decay) {
  if (!(decay >= 0 && decay <= 1)) {
    throw ValueError(fmt::format("ExponentialMovingAverage: decay is {}; it must be in [0, 1]", decay));
  }
}

void ExponentialMovingAverage::update() {
  const NoGrad guard;
  if (!updated_.item<bool>()) {
    copy_each(averages_, parameters_);
    updated_.fill_(1);
    return;
  }
  for (size_t i = 0; i < parameters_.size(); ++i) averages_[i] += (parameters_[i] - averages_[i]) * (1 - decay_);
}

TensorMap ExponentialMovingAverage::state() const {
  TensorMap result{{"updated", updated_}};
  for (size_t i = 0; i < averages_.size(); ++i) result[fmt::format("{}.average", i)] = averages_[i];
  return result;
}

void ExponentialMovingAverage::load_state(const TensorMap& state, Where where) {
  const Call call("load_state", where);
  copy_state(this->state(), state, "the state");
}

AveragedWeights::AveragedWeights(const ExponentialMovingAverage& average)
    : parameters_(average.parameters_), own_values_(clones(parameters_)) {
  copy_each(parameters_, average.averages_);
}

AveragedWeights::~AveragedWeights() { copy_each(parameters_, own_values_); }

}  // namespace linnet::nn
