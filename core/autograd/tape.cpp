#include <linnet/core/autograd/tape.h>

#include <algorithm>
#include <exception>
#include <string_view>

#include <fmt/format.h>

#include <linnet/core/autograd/node.h>
#include <linnet/core/autograd/recomputation.h>
#include <linnet/core/device/kernel_access.h>

/// Recording of ops. The backward walk is in engine.cpp.

namespace linnet {
namespace {

thread_local bool recording = true;
thread_local bool anomaly_mode = false;

}  // namespace

NoGrad::NoGrad() : before_(recording) { recording = false; }
NoGrad::~NoGrad() { recording = before_; }
EnableGrad::EnableGrad() : before_(recording) { recording = true; }
EnableGrad::~EnableGrad() { recording = before_; }
bool grad_enabled() { return recording; }

AnomalyMode::AnomalyMode() : before_(anomaly_mode) { anomaly_mode = true; }
AnomalyMode::~AnomalyMode() { anomaly_mode = before_; }
bool AnomalyMode::enabled() { return anomaly_mode; }

Saved::Saved(const Tensor& tensor) : tensor_(tensor) {
  if (!tensor.defined()) return;
  version_ = detail::version(tensor);
  recomputed_ = CheckpointedCall::keep(tensor);
  if (recomputed_) tensor_ = without_elements(tensor);
}

Tensor Saved::operator()() const {
  if (!tensor_.defined()) return {};
  const Tensor kept = recomputed_ ? recomputed_->tensor() : tensor_;
  if (detail::version(kept) != version_) {
    throw AutogradError(fmt::format(
        "a tensor of shape {} that backward needs was edited in place after this call (edit {}, saved at {}); edit a "
        "clone() instead",
        to_string(kept.shape()), detail::version(kept), version_));
  }
  const std::shared_ptr<Node> output_of = output_of_.lock();
  if (!output_of && !recomputed_) return tensor_;
  Tensor with_history = kept.detach();
  detail::set_node(with_history, output_of ? output_of : detail::node(tensor_));
  return with_history;
}

Op::Op(const char* name, Where where, std::initializer_list<Tensor> inputs)
    : Op(name, where, std::vector<Tensor>(inputs)) {}

Op::Op(const char* name, Where where, std::vector<Tensor> inputs)
    : Call(name, where), inputs_(std::move(inputs)), exceptions_(std::uncaught_exceptions()) {
  const Tensor* first = nullptr;
  for (const Tensor& input : inputs_) {
    if (!input.defined()) continue;
    if (first == nullptr) first = &input;
    if (input.device() != first->device()) {
      throw DeviceError(fmt::format("tensors are on two devices, {} and {}; move one with to(Device)",
                                    name_of(first->device()), name_of(input.device())));
    }
  }
  CheckpointedCall::read(inputs_);
}

Op::~Op() noexcept(false) {
  if (!finished_ && std::uncaught_exceptions() == exceptions_) {
    throw AutogradError(fmt::format("op {} ended without record() or non_differentiable()", name()));
  }
}

DType Op::common_dtype() const {
  const Tensor* first = nullptr;
  for (const Tensor& input : inputs_) {
    if (!input.defined()) continue;
    if (first == nullptr) first = &input;
    if (input.dtype() != first->dtype()) {
      throw DTypeError(fmt::format("dtypes differ: {}{} and {}{}; convert one with to(DType)",
                                   name_of(first->dtype()), to_string(first->shape()), name_of(input.dtype()),
                                   to_string(input.shape())));
    }
  }
  if (first == nullptr) throw ValueError("no tensor was given");
  return first->dtype();
}

DType Op::floating_dtype() const {
  const DType dtype = common_dtype();
  detail::check_floating(dtype);
  return dtype;
}

DType Op::activation_dtype(size_t count) const {
  const bool narrow = std::all_of(inputs_.begin(), inputs_.begin() + static_cast<std::ptrdiff_t>(count),
                                  [](const Tensor& x) { return x.dtype() == DType::bfloat16; });
  if (!narrow) return floating_dtype();
  for (size_t i = count; i < inputs_.size(); ++i) {
    const Tensor& parameter = inputs_[i];
    if (!parameter.defined() || parameter.dtype() == DType::float32) continue;
    throw DTypeError(
        fmt::format("dtypes differ: beside bfloat16{} parameters are float32, not {}{}; convert with to(DType)",
                    to_string(inputs_.front().shape()), name_of(parameter.dtype()), to_string(parameter.shape())));
  }
  return DType::bfloat16;
}

Saved Op::save(const Tensor& tensor) const { return tracked() ? Saved(tensor) : Saved(); }

Saved Op::save_output(const Tensor& output) {
  if (!tracked()) return {};
  Saved saved = save(output);
  if (!pending_) pending_ = Node::make();
  saved.output_of_ = pending_;
  if (!saved.recomputed_) saved.tensor_ = output.detach();
  return saved;
}

bool Op::tracked() const {
  return recording && std::any_of(inputs_.begin(), inputs_.end(),
                                  [](const Tensor& input) { return input.defined() && input.requires_grad(); });
}

bool Op::is_input(const Tensor& output) const {
  return std::any_of(inputs_.begin(), inputs_.end(), [&](const Tensor& input) { return input.is(output); });
}

bool Op::end_with(const Tensor& output) {
  finished_ = true;
  if (anomaly_mode && is_floating(output.dtype()) && backend(output).has_nan(detail::view(output))) {
    throw ValueError(fmt::format("produced a NaN (AnomalyMode), in op {}", name()));
  }
  return tracked();
}

Tensor Op::add_node(Tensor output, Backward backward) {
  const std::shared_ptr<Node> node = pending_ ? std::move(pending_) : Node::make();
  node->op = outermost()->name();
  node->where = outermost()->where();
  node->backward = std::move(backward);
  node->shape = output.shape();
  node->dtype = output.dtype();
  node->device = output.device();
  node->inputs.reserve(inputs_.size());
  for (const Tensor& input : inputs_) {
    node->inputs.push_back(input.defined() ? detail::node(input) : nullptr);
    if (node->inputs.back()) node->sequence = std::max(node->sequence, node->inputs.back()->sequence + 1);
  }
  detail::set_node(output, node);
  return output;
}

Tensor Op::non_differentiable(Tensor output, const char* reason) {
  finished_ = true;
  if (!tracked() || !is_floating(output.dtype())) return output;
  const bool named = outermost()->name() == std::string_view(name());  // then the message begins with it anyway
  throw AutogradError(
      fmt::format("{}{}has no gradient: {}. An input requires grad; pass input.detach(), or call it under NoGrad",
                  named ? "" : name(), named ? "" : " ", reason));
}

void Op::first_derivative_only(const char* parts) {
  finished_ = true;
  if (!recording) return;
  throw AutogradError(
      fmt::format("{} has no gradient: it is fused, for first derivatives only; compose it of {} for second ones, or "
                  "leave out create_graph for first ones",
                  name(), parts));
}

}  // namespace linnet
