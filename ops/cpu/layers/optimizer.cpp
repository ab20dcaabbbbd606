#include <cmath>

#include <linnet/ops/cpu/device/kernel.h>

/// Optimizer steps, with the formulas of torch.optim. Memory-bound: AdamW reads the parameter, its gradient and two
/// moments and writes three of these back, 28 bytes a number, in one pass over all tensors. So clipping is a factor
/// of the gradient here: a separate multiplication would cost a pass of its own.

namespace linnet::cpu::LINNET_ISA {
namespace {

template <class T>
T grad_factor(const StepScalars& scalars) {
  return scalars.grad_factor != nullptr ? static_cast<T>(*scalars.grad_factor) : T{1};
}

/// AdamW (Loshchilov & Hutter 2019, algorithm 2), or Adam with L2 decay when not decoupled (Kingma & Ba 2015,
/// algorithm 1): elements [begin, end) of a parameter.
template <class T>
void adamw_step(const AdamWUpdate& update, int64_t begin, int64_t end) {
  const AdamWParams& params = update.params;
  const double lr = *update.scalars.lr, step = static_cast<double>(*update.scalars.steps);
  const double correction1 = 1 - std::pow(params.beta1, step);
  const double correction2 = 1 - std::pow(params.beta2, step);
  const T step_size = static_cast<T>(lr / correction1);
  const T root_correction2 = static_cast<T>(std::sqrt(correction2));
  const T shrink = static_cast<T>(params.decoupled ? 1 - lr * params.weight_decay : 1);
  const T decay = static_cast<T>(params.decoupled ? 0 : params.weight_decay);
  const T beta2 = static_cast<T>(params.beta2), eps = static_cast<T>(params.eps);
  const T rest1 = static_cast<T>(1 - params.beta1), rest2 = static_cast<T>(1 - params.beta2);
  const T factor = grad_factor<T>(update.scalars);
  T* p = data<T>(update.param);
  T* m = data<T>(update.first_moment);
  T* v = data<T>(update.second_moment);
  const T* gradient = data<T>(update.grad);
#pragma omp simd
  for (int64_t i = begin; i < end; ++i) {
    const T g = factor * gradient[i] + decay * p[i];
    m[i] += rest1 * (g - m[i]);
    v[i] = beta2 * v[i] + rest2 * g * g;
    p[i] = shrink * p[i] - step_size * m[i] / (std::sqrt(v[i]) / root_correction2 + eps);
  }
}

/// Stochastic gradient descent with momentum as in PyTorch: Sutskever et al. 2013, but the learning rate multiplies
/// the buffer.
template <class T>
void sgd_step(const View& param, const View& grad, const View* momentum, const StepScalars& scalars,
              const SgdParams& params) {
  const T lr = static_cast<T>(*scalars.lr), decay = static_cast<T>(params.weight_decay);
  const T factor = grad_factor<T>(scalars);
  T* p = data<T>(param);
  const T* gradient = data<T>(grad);
  if (momentum == nullptr) {
    parallel_for(numel(param), kFineGrain, [&](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) p[i] -= lr * (factor * gradient[i] + decay * p[i]);
    });
    return;
  }
  // On the first step the buffer is not written yet, and starts as the gradient, without dampening.
  const bool first = *scalars.steps == 1;
  const T keep = static_cast<T>(params.momentum);
  const T take = static_cast<T>(first ? 1 : 1 - params.dampening);
  const T buffer_factor = static_cast<T>(params.nesterov ? params.momentum : 1);
  const T direct_factor = static_cast<T>(params.nesterov ? 1 : 0);
  T* buffer = data<T>(*momentum);
  parallel_for(numel(param), kFineGrain, [&](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const T g = factor * gradient[i] + decay * p[i];
      buffer[i] = (first ? T{0} : keep * buffer[i]) + take * g;
      p[i] -= lr * (direct_factor * g + buffer_factor * buffer[i]);
    }
  });
}

/// Whether to make the step; if so, counts it.
bool begin_step(const StepScalars& scalars) {
  if (scalars.apply != nullptr && !*scalars.apply) return false;
  ++*scalars.steps;
  return true;
}

void adamw(AdamWUpdates updates) {
  for (int64_t i = 0; i < updates.count; ++i) {
    if (!begin_step(updates.data[i].scalars)) return;
  }
  const auto numel_of = [&](int64_t i) { return numel(updates.data[i].param); };
  for_each_element_range(updates.count, kFineGrain, numel_of, [&](ElementRange range, int64_t) {
    const AdamWUpdate& update = updates.data[range.tensor];
    dispatch_floating(update.param.dtype, [&]<class T>(T) { adamw_step<T>(update, range.begin, range.end); });
  });
}

void sgd(View param, View grad, const View* momentum, StepScalars scalars, SgdParams params) {
  if (!begin_step(scalars)) return;
  dispatch_floating(param.dtype, [&]<class T>(T) { sgd_step<T>(param, grad, momentum, scalars, params); });
}

}  // namespace

void fill_optimizer(Backend& table) {
  table.adamw = adamw;
  table.sgd = sgd;
}

}  // namespace linnet::cpu::LINNET_ISA
