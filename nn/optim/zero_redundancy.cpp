#include <linnet/nn/optim/zero_redundancy.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>

namespace linnet::nn {
namespace {

/// The rank that owns each of these parameters.
std::vector<int> divide(const std::vector<Tensor>& parameters, int ranks) {
  const auto bytes_of = [&](size_t i) {
    const Tensor& parameter = parameters[i];
    return parameter.requires_grad() ? parameter.numel() * size_of(parameter.dtype()) : 0;
  };
  std::vector<size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), bytes_of);
  std::vector<int64_t> owned(static_cast<size_t>(ranks));  // bytes of each rank
  std::vector<int> owners(parameters.size());
  for (const size_t i : order) {
    const auto least = std::ranges::min_element(owned);
    *least += bytes_of(i);
    owners[i] = static_cast<int>(least - owned.begin());
  }
  return owners;
}

/// The index of the parameter whose moment has this name in a state; none for tensors of all parameters, such as
/// "steps".
std::optional<size_t> parameter_of(const std::string& name) {
  size_t index = 0;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, index);
  if (error != std::errc() || rest == end || *rest != '.') return std::nullopt;
  return index;
}

/// Removes gradients that a step must not see, and puts them back at its end.
class GradientsAside {
 public:
  GradientsAside() = default;
  GradientsAside(const GradientsAside&) = delete;
  GradientsAside& operator=(const GradientsAside&) = delete;
  ~GradientsAside() {
    for (auto& [parameter, grad] : gradients_) parameter.set_grad(grad);
  }

  void take(Tensor parameter) {
    gradients_.emplace_back(parameter, parameter.grad());
    parameter.set_grad({});
  }

 private:
  std::vector<std::pair<Tensor, Tensor>> gradients_;
};

}  // namespace

ZeroRedundancyOptimizer::ZeroRedundancyOptimizer(ProcessGroup& group, Optimizer& optimizer, Where where)
    : group_(group), optimizer_(optimizer) {
  const Call call("ZeroRedundancyOptimizer", where);
  for (const ParameterGroup& one : optimizer.groups()) {
    parameters_.insert(parameters_.end(), one.parameters.begin(), one.parameters.end());
  }
  owners_ = divide(parameters_, group.world_size());
  if (group.world_size() == 1 || optimizer.state().at("steps").sum().item<int64_t>() == 0) return;
  throw ValueError("the optimizer has made steps on all parameters; make a new one, and load_state() its state here");
}

void ZeroRedundancyOptimizer::step(const StepOptions& options, Where where) {
  if (group_.world_size() == 1) return optimizer_.step(options, where);
  const Call call("step", where);
  std::vector<size_t> trained;
  bool has_own = false;
  {
    GradientsAside others;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      if (!parameters_[i].grad().defined()) continue;
      trained.push_back(i);
      if (owners_[i] == group_.rank()) {
        has_own = true;
      } else {
        others.take(parameters_[i]);
      }
    }
    // If no parameter has a gradient, the call throws the optimizer's error.
    if (has_own || trained.empty()) optimizer_.step(options);
  }
  for (const size_t i : trained) group_.broadcast({parameters_[i]}, owners_[i]);
}

TensorMap ZeroRedundancyOptimizer::state() const {
  TensorMap state = optimizer_.state();
  if (group_.world_size() == 1) return state;
  // Each rank counts only the steps of its own parameters and has 0 for the others, so the sum is exact.
  const Tensor steps = state.at("steps").to(DType::float64);
  group_.all_reduce(steps, {.any_order = true});
  state["steps"] = steps.to(DType::int64);
  return state;
}

void ZeroRedundancyOptimizer::load_state(const TensorMap& state, Where where) {
  const Call call("load_state", where);
  TensorMap own;
  for (const auto& [name, tensor] : state) {
    if (needs(name)) own[name] = tensor;
  }
  const auto steps = own.find("steps");
  if (steps != own.end() && steps->second.dtype() == DType::int64 && steps->second.numel() == std::ssize(owners_)) {
    std::vector<int64_t> counts = steps->second.to_vector<int64_t>();
    for (size_t i = 0; i < counts.size(); ++i) {
      if (owners_[i] != group_.rank()) counts[i] = 0;
    }
    steps->second = tensor(counts);
  }
  optimizer_.load_state(own);
}

bool ZeroRedundancyOptimizer::needs(const std::string& name) const {
  const std::optional<size_t> parameter = parameter_of(name);
  return !parameter || *parameter >= owners_.size() || owners_[*parameter] == group_.rank();
}

int64_t ZeroRedundancyOptimizer::state_bytes() const {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : optimizer_.state()) {
    if (parameter_of(name)) bytes += tensor.numel() * size_of(tensor.dtype());
  }
  return bytes;
}

}  // namespace linnet::nn
