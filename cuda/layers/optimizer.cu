#include <type_traits>

#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/math.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/device/tensor_list.cuh>

/// Optimizer steps, with the formulas of torch.optim. Reading and writing parameters and moments bounds them.

namespace linnet::cuda {
namespace {

/// Whether the step is applied.
__device__ bool applies(const StepScalars& scalars) { return scalars.apply == nullptr || *scalars.apply; }

template <class T>
__device__ T grad_factor(const StepScalars& scalars) {
  return scalars.grad_factor != nullptr ? static_cast<T>(*scalars.grad_factor) : T{1};
}

/// The factors of a step, computed in double and rounded to T.
template <class T>
struct AdamWFactors {
  T grad, step_size, root_correction2, shrink, decay, beta2, eps, rest1, rest2;

  __device__ AdamWFactors(const AdamWParams& params, const StepScalars& scalars, double lr, int64_t step)
      : grad(grad_factor<T>(scalars)),
        step_size(static_cast<T>(lr / correction(params.beta1, step))),
        root_correction2(static_cast<T>(sqrt(correction(params.beta2, step)))),
        shrink(static_cast<T>(params.decoupled ? 1 - lr * params.weight_decay : 1)),
        decay(static_cast<T>(params.decoupled ? 0 : params.weight_decay)),
        beta2(static_cast<T>(params.beta2)),
        eps(static_cast<T>(params.eps)),
        rest1(static_cast<T>(1 - params.beta1)),
        rest2(static_cast<T>(1 - params.beta2)) {}

 private:
  __device__ static double correction(double beta, int64_t step) { return 1 - pow(beta, static_cast<double>(step)); }
};

/// AdamW (Loshchilov & Hutter 2019, algorithm 2), or Adam with L2 decay when not decoupled (Kingma & Ba 2015,
/// algorithm 1).
template <class T>
struct AdamWTensor {
  T* param;
  const T* grad;
  T *first, *second;
  int64_t count, first_block;
  StepScalars scalars;
  AdamWParams params;

  __device__ void step(int64_t i, const AdamWFactors<T>& by) const {
    const T p = param[i], g = by.grad * grad[i] + by.decay * p;
    const T m = first[i] + by.rest1 * (g - first[i]);
    const T v = by.beta2 * second[i] + by.rest2 * g * g;
    first[i] = m;
    second[i] = v;
    param[i] = by.shrink * p - by.step_size * m / (sqrt(v) / by.root_correction2 + by.eps);
  }
};

/// Counts each tensor's step and computes its factors.
template <class T>
__global__ void begin_adamw(TensorList<AdamWTensor<T>> tensors, AdamWFactors<T>* factors) {
  for (int64_t t = first_item(); t < tensors.count; t += item_step()) {
    const AdamWTensor<T>& tensor = tensors.of[t];
    if (applies(tensor.scalars))
      factors[t] = {tensor.params, tensor.scalars, *tensor.scalars.lr, ++*tensor.scalars.steps};
  }
}

template <class T>
__global__ void adamw_steps(TensorList<AdamWTensor<T>> tensors, const AdamWFactors<T>* factors) {
  for (int64_t block = blockIdx.x; block < tensors.blocks; block += gridDim.x) {
    const AdamWTensor<T>& tensor = tensors.at(block);
    if (!applies(tensor.scalars)) continue;
    const AdamWFactors<T> by = factors[&tensor - tensors.of];
    const int64_t first = tensors.first(tensor, block), end = min(first + tensors.kBlock, tensor.count);
    for (int64_t i = first + threadIdx.x; i < end; i += kThreads) tensor.step(i, by);
  }
}

/// Tensors of one dtype, collected for one launch.
template <class T>
class AdamWBatch {
 public:
  void add(const AdamWUpdate& update) {
    if (tensors_.is_full()) flush();
    tensors_.add({data<T>(update.param), data<const T>(update.grad), data<T>(update.first_moment),
                  data<T>(update.second_moment), numel(update.param), 0, update.scalars, update.params});
  }

  void flush() {
    const Scratch<AdamWFactors<T>> factors(tensors_.count);
    launch(begin_adamw<T>, blocks_for(tensors_.count), kThreads, tensors_, factors.data());
    launch(adamw_steps<T>, tensors_.blocks, kThreads, tensors_, factors.data());
    tensors_.count = 0;
    tensors_.blocks = 0;
  }

 private:
  TensorList<AdamWTensor<T>> tensors_{};
};

template <class T>
struct SgdFactors {
  T decay, keep, take, ahead, direct;

  explicit SgdFactors(const SgdParams& params)
      : decay(static_cast<T>(params.weight_decay)),
        keep(static_cast<T>(params.momentum)),
        take(static_cast<T>(1 - params.dampening)),
        ahead(static_cast<T>(params.nesterov ? params.momentum : 1)),
        direct(static_cast<T>(params.nesterov ? 1 : 0)) {}
};

/// Stochastic gradient descent with momentum, as in PyTorch (Sutskever et al. 2013, but the learning rate multiplies
/// the buffer). `buffer` is null without momentum. In the first step it is uninitialised, and becomes the gradient
/// without dampening.
template <class T>
__global__ void sgd_step(int64_t count, SgdFactors<T> by, StepScalars scalars, T* param, const T* grad, T* buffer) {
  if (!applies(scalars)) return;
  const T lr = static_cast<T>(*scalars.lr), factor = grad_factor<T>(scalars);
  const bool is_first = *scalars.steps == 0;
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const T p = param[i], g = factor * grad[i] + by.decay * p;
    if (buffer == nullptr) {
      param[i] = p - lr * g;
      continue;
    }
    const T velocity = is_first ? g : by.keep * buffer[i] + by.take * g;
    buffer[i] = velocity;
    param[i] = p - lr * (by.direct * g + by.ahead * velocity);
  }
}

__global__ void count_step(StepScalars scalars) {
  if (applies(scalars)) ++*scalars.steps;
}

void adamw(AdamWUpdates updates) {
  AdamWBatch<float> floats;
  AdamWBatch<double> doubles;
  for (int64_t i = 0; i < updates.count; ++i) {
    const AdamWUpdate& update = updates.data[i];
    dispatch_floating(update.param.dtype, [&](auto zero) {
      if constexpr (std::is_same_v<decltype(zero), float>) {
        floats.add(update);
      } else {
        doubles.add(update);
      }
    });
  }
  floats.flush();
  doubles.flush();
}

void sgd(View param, View grad, const View* momentum, StepScalars scalars, SgdParams params) {
  const int64_t count = numel(param);
  dispatch_floating(param.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(sgd_step<T>, blocks_for(count), kThreads, count, SgdFactors<T>(params), scalars, data<T>(param),
           data<const T>(grad), data<T>(momentum));
  });
  launch(count_step, 1, 1, scalars);
}

}  // namespace

void fill_optimizer(Backend& table) {
  table.adamw = adamw;
  table.sgd = sgd;
}

}  // namespace linnet::cuda
