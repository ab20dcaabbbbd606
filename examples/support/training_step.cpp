#include "support/training_step.h"

#include <cmath>

#include <fmt/format.h>

namespace linnet::examples {
namespace {

nn::AdamW make_optimizer(const std::vector<Tensor>& parameters, const Settings& s) {
  const nn::AdamWConfig config{.lr = s.lr, .beta1 = s.beta1, .beta2 = s.beta2, .weight_decay = s.weight_decay};
  return s.decay_matrices_only ? nn::AdamW(nn::decay_matrices_only(parameters, s.weight_decay), config)
                               : nn::AdamW(parameters, config);
}

}  // namespace

TrainingStep::TrainingStep(Task& task, const Settings& settings)
    : task_(task),
      settings_(settings),
      parameters_(task.model().parameters()),
      optimizer_(make_optimizer(parameters_, settings)) {}

int64_t TrainingStep::parameters() const {
  int64_t count = 0;
  for (const Tensor& parameter : parameters_) count += parameter.numel();
  return count;
}

double TrainingStep::operator()(int64_t step, double lr) {
  const Settings& s = settings_;
  optimizer_.set_lr(lr);
  double total = 0;
  for (int64_t i = 0; i < s.accumulate; ++i) {
    const Tensor loss = task_.loss(step * s.accumulate + i);
    backward(s.accumulate == 1 ? loss : loss / static_cast<double>(s.accumulate));
    total += loss.item<double>();
  }
  total /= static_cast<double>(s.accumulate);
  const double norm = s.clip > 0 ? nn::clip_grad_norm_(parameters_, s.clip).item<double>() : 0;
  if (!std::isfinite(total) || !std::isfinite(norm)) {
    throw ValueError(
        fmt::format("the loss is {} and the gradients' norm {} at step {}; lower --lr, raise --warmup or "
                    "set --clip (what was saved before is untouched)",
                    total, norm, step));
  }
  optimizer_.step();
  optimizer_.zero_grad();
  return total;
}

}  // namespace linnet::examples
