#include <linnet/core/autograd/checkpoint.h>

#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/recomputation.h>
#include <linnet/core/autograd/tensor_impl.h>
#include <linnet/core/error.h>

namespace linnet {
namespace {

std::string kind_of(const Tensor& x) {
  return x.defined() ? fmt::format("{}{}", name_of(x.dtype()), to_string(x.shape())) : "undefined";
}

std::vector<std::string> kinds_of(const std::vector<Tensor>& tensors) {
  std::vector<std::string> kinds;
  kinds.reserve(tensors.size());
  for (const Tensor& tensor : tensors) kinds.push_back(kind_of(tensor));
  return kinds;
}

/// Throws AutogradError: the second run differs from the first one in `what`.
[[noreturn]] void refuse_second_run(const char* what, const std::string& first, const std::string& second) {
  throw AutogradError(
      fmt::format("the function of a checkpoint did something else when backward ran it again ({}: {}, and then {}); "
                  "until backward is done, let it depend on nothing that changes, and freeze no parameters",
                  what, first, second));
}

}  // namespace

/// A run of the function on this thread.
struct CheckpointedCall::Run {
  Run(CheckpointedCall& call_, bool is_second_) : call(call_), is_second(is_second_), enclosing(current_) {
    current_ = this;
  }
  ~Run() { current_ = enclosing; }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  static RandomKey draw(Run* run, Generator::State& state);

  CheckpointedCall& call;
  bool is_second;
  Run* enclosing;             ///< the run inside which this one began, or null
  std::vector<Tensor> saved;  ///< in a second run: the tensors that ops saved so far
  size_t draws = 0;           ///< in a second run: the number of draws so far
};

thread_local CheckpointedCall::Run* CheckpointedCall::current_ = nullptr;

CheckpointedCall::CheckpointedCall(Function function, const std::vector<Tensor>& inputs)
    : function_(std::move(function)) {
  for (const Tensor& input : inputs) inputs_.push_back(Saved(input));  // an enclosing checkpoint may recompute them
}

std::vector<Tensor> CheckpointedCall::run(const std::vector<Tensor>& inputs) {
  const Run first(*this, /*is_second=*/false);
  std::vector<Tensor> outputs = function_(inputs);
  outputs_ = kinds_of(outputs);
  const std::lock_guard lock(mutex_);
  for (const auto& saved : saved_) {
    if (const auto place = saved.lock()) place->tensor_ = {};
  }
  return outputs;
}

std::shared_ptr<Recomputed> CheckpointedCall::keep(const Tensor& tensor) {
  if (current_ == nullptr) return nullptr;
  if (current_->is_second) {
    current_->saved.push_back(tensor.detach());
    return nullptr;
  }
  CheckpointedCall& call = current_->call;
  auto place = std::make_shared<Recomputed>(call.shared_from_this(), tensor);
  call.saved_.push_back(place);
  return place;
}

void CheckpointedCall::read(const std::vector<Tensor>& inputs) {
  if (current_ == nullptr) return;
  auto& versions = current_->call.versions_;
  for (const Tensor& input : inputs) {
    if (!input.defined() || !input.is_leaf() || !input.requires_grad()) continue;
    const uint64_t version = detail::version(input);
    if (!current_->is_second) {
      versions[detail::node(input)] = version;
    } else if (const auto first = versions.find(detail::node(input));
               first != versions.end() && first->second != version) {
      throw AutogradError(fmt::format(
          "a tensor of shape {} that the function of a checkpoint reads was edited in place after this call "
          "(edit {}, read at {}); call backward before you edit it",
          to_string(input.shape()), version, first->second));
    }
  }
}

RandomKey CheckpointedCall::draw(Generator::State& state) { return Run::draw(current_, state); }

RandomKey CheckpointedCall::Run::draw(Run* run, Generator::State& state) {
  if (run == nullptr) return {state.seed, state.draws++};
  std::vector<RandomKey>& keys = run->call.keys_;
  if (!run->is_second) {
    keys.push_back(draw(run->enclosing, state));
    return keys.back();
  }
  if (run->draws == keys.size()) {
    refuse_second_run("random draws", std::to_string(keys.size()), "more");
  }
  return keys[run->draws++];
}

void CheckpointedCall::run_again() {
  std::vector<Tensor> inputs;
  inputs.reserve(inputs_.size());
  for (const Saved& input : inputs_) inputs.push_back(input());
  Run again(*this, /*is_second=*/true);
  const EnableGrad enable_grad;
  check_same(again, function_(inputs));
  for (size_t i = 0; i < saved_.size(); ++i) {
    if (const auto place = saved_[i].lock()) place->tensor_ = again.saved[i];
  }
}

void CheckpointedCall::check_same(const Run& again, const std::vector<Tensor>& outputs) const {
  const std::vector<std::string> kinds = kinds_of(outputs);
  if (kinds != outputs_) {
    refuse_second_run("results", fmt::format("{}", fmt::join(outputs_, ", ")),
                      fmt::format("{}", fmt::join(kinds, ", ")));
  }
  const auto check_count = [](const char* what, size_t first, size_t second) {
    if (first != second) refuse_second_run(what, std::to_string(first), std::to_string(second));
  };
  check_count("random draws", keys_.size(), again.draws);
  check_count("saved tensors", saved_.size(), again.saved.size());
  for (size_t i = 0; i < saved_.size(); ++i) {
    const auto place = saved_[i].lock();
    if (!place || place->kind_ == kind_of(again.saved[i])) continue;
    refuse_second_run("a saved tensor", place->kind_, kind_of(again.saved[i]));
  }
}

Recomputed::Recomputed(std::shared_ptr<CheckpointedCall> call, const Tensor& tensor)
    : call_(std::move(call)), kind_(kind_of(tensor)), tensor_(tensor.detach()) {}

Tensor Recomputed::tensor() {
  const std::lock_guard lock(call_->mutex_);
  if (!tensor_.defined()) call_->run_again();
  return tensor_;
}

Tensor without_elements(const Tensor& x) {
  detail::TensorAccess::Impl impl = detail::TensorAccess::impl(x);
  impl.storage = nullptr;
  return detail::TensorAccess::make(std::move(impl));
}

std::vector<Tensor> checkpoint(std::function<std::vector<Tensor>(const std::vector<Tensor>& inputs)> f,
                               const std::vector<Tensor>& inputs) {
  if (!grad_enabled()) return f(inputs);
  return std::make_shared<CheckpointedCall>(std::move(f), inputs)->run(inputs);
}

Tensor checkpoint(std::function<Tensor(const Tensor& x)> f, const Tensor& x) {
  return checkpoint([f = std::move(f)](const std::vector<Tensor>& in) { return std::vector{f(in[0])}; },
                    std::vector{x})[0];
}

}  // namespace linnet
