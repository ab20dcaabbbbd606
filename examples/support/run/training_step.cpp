#include "support/run/training_step.h"

#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "support/ranks.h"
#include "support/settings/program.h"

namespace linnet::examples {
namespace {

nn::AdamW make_optimizer(const std::vector<Tensor>& parameters, const Settings& s) {
  const nn::AdamWConfig config{
      .lr = s.lr, .beta1 = s.beta1, .beta2 = s.beta2, .eps = s.eps, .weight_decay = s.weight_decay};
  return s.decay_matrices_only ? nn::AdamW(nn::decay_matrices_only(parameters, s.weight_decay), config)
                               : nn::AdamW(parameters, config);
}

/// Null for one process and one shard. Throws as check_ranks.
std::unique_ptr<nn::DataParallel> make_parallel(nn::Module& model, const Settings& s) {
  check_ranks(s);
  if (ranks().world_size() == 1 && s.shards == 1) return nullptr;
  return std::make_unique<nn::DataParallel>(
      ranks(), model,
      nn::DataParallelOptions{.shards = s.shards, .accumulate = s.accumulate, .any_order = s.reduce == "any-order"});
}

/// The message for a loss that is not finite, with the flags that may help.
std::string divergence(double loss, double norm, int64_t step, const Settings& s) {
  const auto text = [](double x) { return std::isnan(x) ? "nan" : fmt::format("{}", x); };  // never "-nan"
  return fmt::format("the loss is {}{} at step {}; lower --lr{}{} (what was saved before is untouched)", text(loss),
                     s.clip > 0 ? " and the gradients' norm " + text(norm) : "", step,
                     s.schedule == "one-cycle" ? "" : ", or raise --warmup", s.clip > 0 ? "" : ", or set --clip");
}

}  // namespace

void check_ranks(const Settings& s) {
  const int count = ranks().world_size();
  if (s.shards % count == 0) return;
  throw UsageError(fmt::format("--shards {}: {} processes do not divide it; {}", s.shards, count,
                               count > s.shards ? fmt::format("start at most {}, or take more shards, such as {}",
                                                              s.shards, std::bit_ceil(static_cast<unsigned>(count)))
                                                : "start 1, 2, 4, 8, … of them"));
}

TrainingStep::TrainingStep(Task& task, const Settings& settings)
    : task_(task),
      settings_(settings),
      parameters_(task.model().parameters()),
      optimizer_(make_optimizer(parameters_, settings)),
      divided_(settings.shard_optimizer ? ranks() : one_rank(), optimizer_),
      parallel_(make_parallel(task.model(), settings)),
      recorded_(task.model().device(), &task.model().generator(),
                [this](const std::vector<Tensor>& batches) { return run(batches); }) {}

int64_t TrainingStep::parameters() const {
  int64_t count = 0;
  for (const Tensor& parameter : parameters_) count += parameter.numel();
  return count;
}

double TrainingStep::operator()(int64_t step, double lr, std::optional<double> beta1) {
  optimizer_.set_lr(lr);
  if (beta1) optimizer_.set_beta1(*beta1);
  make_ready(step);
  task_.model().begin_step(step);
  // A recording would repeat the same beta1, and it cannot contain the reading of each shard's loss.
  const std::vector<Tensor> results = beta1 || parallel_ ? run_unrecorded(next_batches_) : recorded_(next_batches_);
  try {
    make_ready(step + 1);  // overlaps with the GPU, which is still computing this step
  } catch (const std::exception&) {
    // This step has been applied and returns its loss. The next one tries again and reports the error.
  }
  const double loss = results[0].item<double>(), norm = results[1].item<double>();
  if (!std::isfinite(loss) || !std::isfinite(norm)) throw ValueError(divergence(loss, norm, step, settings_));
  return loss;
}

void TrainingStep::make_ready(int64_t step) {
  if (step == next_step_) return;
  next_batches_ = batches_of(step);
  next_step_ = step;
}

std::vector<Tensor> TrainingStep::batches_of(int64_t step) const {
  std::vector<Tensor> batches;
  for (int64_t i = 0; i < settings_.accumulate; ++i) {
    const nn::Batch batch = task_.batch(step * settings_.accumulate + i);
    batches.insert(batches.end(), {batch.inputs, batch.targets});
    batches.insert(batches.end(), batch.others.begin(), batch.others.end());
  }
  return batches;
}

std::vector<Tensor> TrainingStep::run_unrecorded(std::vector<Tensor> batches) {
  for (Tensor& tensor : batches) tensor = tensor.to(task_.model().device());
  return run(batches);
}

/// The part of a step that is recorded: from the tensors of the micro-batches to the mean loss and the
/// norm of the gradients, which it returns. The gradients are applied only if both are finite.
std::vector<Tensor> TrainingStep::run(const std::vector<Tensor>& batches) {
  const Settings& s = settings_;
  const Tensor total = parallel_ ? backward_shards(batches) : backward_all(batches);
  if (s.clip_value > 0) nn::clip_grad_value_(parameters_, s.clip_value);
  const Tensor norm = s.clip > 0 ? nn::grad_norm(parameters_) : zeros_like(total);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  divided_.step({.grad_factor = s.clip > 0 ? nn::clip_factor(norm, s.clip) : Tensor(),
                 .apply = logical_and(lt(abs(total), kInfinity), lt(norm, kInfinity))});
  optimizer_.zero_grad();
  return {total, norm};
}

Tensor TrainingStep::backward_all(const std::vector<Tensor>& batches) {
  const auto count = static_cast<double>(settings_.accumulate);
  Tensor total = zeros({}, DType::float64, task_.model().device());
  const auto size = std::ssize(batches) / settings_.accumulate;  // tensors of a micro-batch
  for (auto batch = batches.begin(); batch != batches.end(); batch += size) {
    const Tensor loss = task_.loss({batch[0], batch[1], {batch + 2, batch + size}});
    backward(settings_.accumulate == 1 ? loss : loss / count);
    total = total + loss.detach().to(DType::float64);
  }
  return total / count;
}

Tensor TrainingStep::backward_shards(const std::vector<Tensor>& batches) {
  const auto size = std::ssize(batches) / settings_.accumulate;
  const double loss = parallel_->backward([&](const nn::Shard& shard) {
    nn::Batch part;
    for (int64_t i = 0; i < size; ++i) {
      const Tensor rows = shard.of(batches[static_cast<size_t>(shard.micro_batch * size + i)]);
      (i == 0 ? part.inputs : i == 1 ? part.targets : part.others.emplace_back()) = rows;
    }
    return task_.loss(part);
  });
  return full({}, loss, DType::float64, task_.model().device());
}

void TrainingStep::check_same() {
  if (parallel_) parallel_->check_same();
}

}  // namespace linnet::examples
