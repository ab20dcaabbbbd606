#include "support/run/best_weights.h"

namespace linnet::examples {
namespace {

const std::string kStep = "step", kAccuracy = "accuracy", kWeights = "weights.";

}  // namespace

BestWeights::BestWeights(nn::Module& model)
    : model_(model), step_(zeros({}, DType::int64)), accuracy_(full({}, -1, DType::float64)) {
  for (const auto& [name, tensor] : model.state()) weights_[name] = tensor.detach().clone();
}

void BestWeights::offer(int64_t step, double accuracy) {
  if (accuracy <= accuracy_.item<double>()) return;
  nn::copy_state(weights_, model_.state(), "the model");
  step_.fill_(step);
  accuracy_.fill_(accuracy);
}

void BestWeights::restore() const { model_.load_state(weights_); }

int64_t BestWeights::step() const { return step_.item<int64_t>(); }

TensorMap BestWeights::state() const {
  TensorMap state{{kStep, step_}, {kAccuracy, accuracy_}};
  for (const auto& [name, tensor] : weights_) state[kWeights + name] = tensor;
  return state;
}

void BestWeights::load_state(const TensorMap& state) { nn::copy_state(this->state(), state, "the checkpoint"); }

}  // namespace linnet::examples
