#include <linnet/nn/optim/optim.h>

#include <fmt/format.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>

/// The state of an optimizer in a checkpoint.

namespace linnet::nn {

std::string Optimizer::moment_name(size_t m) const { return fmt::format("moment{}", m + 1); }

TensorMap Optimizer::state() const {
  std::vector<double> lr, weight_decay;
  for (const ParameterGroup& group : groups_) {
    lr.push_back(*group.lr);
    weight_decay.push_back(*group.weight_decay);
  }
  std::map<Device, std::vector<int64_t>> counts;
  for (const auto& [device, steps] : steps_) counts[device] = steps.to_vector<int64_t>();
  std::vector<int64_t> steps;
  TensorMap result;
  for (size_t i = 0; i < slots_.size(); ++i) {
    steps.push_back(counts[slots_[i].parameter.device()][i]);
    if (steps[i] == 0) continue;  // its moments are not written yet
    for (size_t m = 0; m < slots_[i].moments.size(); ++m) {
      result[fmt::format("{}.{}", i, moment_name(m))] = slots_[i].moments[m];
    }
  }
  result["lr"] = tensor(lr);
  result["weight_decay"] = tensor(weight_decay);
  result["steps"] = tensor(steps);
  return result;
}

void Optimizer::load_state(const TensorMap& state, Where where) {
  const Call call("load_state", where);
  size_t used = 0;
  const auto find = [&](const std::string& name, const Shape& shape, DType dtype) {
    const auto found = state.find(name);
    if (found == state.end() || found->second.shape() != shape || found->second.dtype() != dtype) {
      throw ValueError(
          fmt::format("the state does not fit the optimizer: '{}' should be {} {}; build it over the "
                      "model and with the settings of the saved one",
                      name, to_string(shape), name_of(dtype)));
    }
    ++used;
    return found->second;
  };
  const auto count = [](const auto& list) { return static_cast<int64_t>(list.size()); };
  const auto lr = find("lr", {count(groups_)}, DType::float64).to_vector<double>();
  const auto weight_decay = find("weight_decay", {count(groups_)}, DType::float64).to_vector<double>();
  const auto steps = find("steps", {count(slots_)}, DType::int64).to_vector<int64_t>();
  for (size_t g = 0; g < groups_.size(); ++g) {
    check_setting("lr", lr[g]);
    check_setting("weight_decay", weight_decay[g]);
  }
  for (const int64_t number : steps) {
    if (number >= 0 && number <= INT64_MAX / 2) continue;  // those after it can be counted too
    throw ValueError(fmt::format(
        "the state does not fit the optimizer: a parameter has made {} steps; the state is damaged", number));
  }
  std::vector<std::vector<Tensor>> moments(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Tensor& parameter = slots_[i].parameter;
    for (size_t m = 0; m < moments_ && steps[i] > 0; ++m) {
      moments[i].push_back(find(fmt::format("{}.{}", i, moment_name(m)), parameter.shape(), parameter.dtype()));
    }
  }
  if (used != state.size()) {
    throw ValueError(
        fmt::format("the state does not fit the optimizer: it has {} tensors, {} of them expected; was it "
                    "saved by another kind of optimizer?",
                    state.size(), used));
  }
  // Everything is allocated first, so that a failure changes nothing. Moments are then copied in place, because a
  // recording uses their memory.
  const NoGrad guard;
  std::vector<std::vector<Tensor>> first(slots_.size());  // moments of parameters that have none yet
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Device device = slots_[i].parameter.device();
    for (Tensor& moment : moments[i]) {
      moment = moment.to(device);
      if (slots_[i].moments.empty()) first[i].push_back(moment.clone());
    }
  }
  std::vector<double> each_lr;
  for (size_t g = 0; g < groups_.size(); ++g) each_lr.insert(each_lr.end(), groups_[g].parameters.size(), lr[g]);
  std::map<Device, std::pair<Tensor, Tensor>> scalars;
  for (const auto& [device, unused] : steps_)
    scalars[device] = {tensor(steps).to(device), tensor(each_lr).to(device)};
  for (size_t i = 0; i < slots_.size(); ++i) {
    std::vector<Tensor>& own = slots_[i].moments;
    if (own.empty()) {
      own.swap(first[i]);
    } else {
      for (size_t m = 0; m < own.size(); ++m) steps[i] > 0 ? own[m].copy_(moments[i][m]) : own[m].fill_(0);
    }
  }
  for (const auto& [device, tensors] : scalars) {
    steps_.at(device).copy_(tensors.first);
    lr_.at(device).copy_(tensors.second);
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    groups_[g].lr = lr[g];
    groups_[g].weight_decay = weight_decay[g];
  }
}

}  // namespace linnet::nn
