#include <linnet/core/autograd/recording.h>

#include <algorithm>
#include <utility>

#include <linnet/core/device/kernel_access.h>
#include <linnet/core/device/profile.h>

namespace linnet {
namespace {

/// The Recording that this thread is recording, or null.
thread_local Recording* current = nullptr;

/// A guard: sets `current` while it lives.
class Current {
 public:
  explicit Current(Recording* recording) { current = recording; }
  ~Current() { current = nullptr; }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;
};

}  // namespace

Recording::Recording(Device device, Generator* generator, Function function)
    : device_(device), generator_(generator), function_(std::move(function)) {}

Recording::~Recording() = default;

std::vector<Tensor> Recording::operator()(const std::vector<Tensor>& inputs) {
  const bool profiled =
      detail::timed_backend(device_) != nullptr;  // a Profile times each kernel, but a replay calls no kernel
  if (device_ == Device::cpu || profiled || is_under_way() || (is_warm_ && !fit(inputs))) {
    std::vector<Tensor> there;
    there.reserve(inputs.size());
    for (const Tensor& input : inputs) there.push_back(input.to(device_));
    return run(there);
  }
  if (!is_warm_) {
    inputs_.clear();
    for (const Tensor& input : inputs) inputs_.push_back(Tensor::empty(input.shape(), input.dtype(), device_));
  }
  for (size_t i = 0; i < inputs.size(); ++i) inputs_[i].copy_(inputs[i]);
  if (is_warm_ && (work_ == nullptr || (generator_ != nullptr && generator_->state().seed != begin_.seed))) record();
  if (work_ == nullptr) {
    std::vector<Tensor> outputs = run(inputs_);
    is_warm_ = true;
    return outputs;
  }
  check(inputs);
  const uint64_t draws = generator_ != nullptr ? generator_->state().draws : 0;
  work_->replay(draws - begin_.draws);
  if (generator_ != nullptr) generator_->set_state({begin_.seed, draws + (end_.draws - begin_.draws)});
  for (const auto* written : {&edited_, &outputs_}) {
    for (const Tensor& tensor : *written) detail::bump_version(tensor);
  }
  return outputs_;
}

bool Recording::fit(const std::vector<Tensor>& inputs) const {
  return std::equal(
      inputs.begin(), inputs.end(), inputs_.begin(), inputs_.end(),
      [](const Tensor& a, const Tensor& b) { return a.shape() == b.shape() && a.dtype() == b.dtype(); });
}

std::vector<Tensor> Recording::run(const std::vector<Tensor>& inputs) const {
  std::vector<Tensor> outputs = function_(inputs);
  for (Tensor& output : outputs) output = output.detach();
  return outputs;
}

void Recording::record() {
  work_ = nullptr;
  checks_.clear();
  edited_.clear();
  copies_constant_ = false;
  if (generator_ != nullptr) begin_ = generator_->state();
  const Current guard(this);
  const auto draw_again = [&] {
    if (generator_ != nullptr) generator_->set_state(begin_);
  };
  try {
    work_ = backend(device_).record([&] { outputs_ = run(inputs_); });
  } catch (...) {
    draw_again();
    throw;
  }
  if (generator_ != nullptr) end_ = generator_->state();
  draw_again();
}

// ---- For ops ----

bool Recording::is_under_way() { return current != nullptr; }

void Recording::check_values(const Tensor& values, std::function<void(const Tensor& on_cpu)> check) {
  if (current == nullptr || values.device() == Device::cpu) return check(values.to(Device::cpu));
  current->add_check(values, std::move(check));
}

void Recording::add_check(const Tensor& values, std::function<void(const Tensor& on_cpu)> check) {
  if (values.numel() == 0) return;
  const Call* call = Call::outermost();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const int64_t bytes =
        static_cast<char*>(detail::view(values).data) - static_cast<char*>(detail::view(inputs_[i]).data);
    const int64_t size = size_of(values.dtype());
    if (values.dtype() != inputs_[i].dtype() || bytes < 0 || bytes >= inputs_[i].numel() * size) continue;
    checks_.push_back(
        {i, values.shape(), values.strides(), bytes / size, call->name(), call->where(), std::move(check)});
    return;
  }
  throw ValueError(
      "within a recorded function, indices and divisors of integers must each be a view of one of its inputs, which "
      "are checked before each call; compute them outside the function, and pass them in");
}

void Recording::check(const std::vector<Tensor>& inputs) const {
  for (const Check& check : checks_) {
    const Tensor input = inputs[check.input].to(Device::cpu).contiguous();
    const Call call(check.op, check.where);
    check.function(detail::as_strided(input, check.shape, check.strides, check.offset));
  }
}

Tensor Recording::constant(const Tensor& x, Device device) {
  if (current == nullptr) return x.to(device);
  current->copies_constant_ = true;
  Tensor copy = x.to(device);
  current->copies_constant_ = false;
  return copy;
}

void Recording::check_copy() {
  if (current == nullptr || current->copies_constant_) return;
  throw DeviceError(
      "a recorded function cannot copy numbers to the device, because later calls would not copy them again; "
      "make the tensor before, or pass it in as an input");
}

void Recording::note_edit(const Tensor& edited) {
  if (current != nullptr) current->edited_.push_back(edited.detach());
}

void Recording::check_generator(const Generator& generator) {
  if (current == nullptr || current->generator_ == &generator) return;
  throw ValueError(
      "a recorded function can draw random numbers only from the generator that the Recording was given");
}

}  // namespace linnet
