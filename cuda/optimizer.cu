#include <cmath>
#include <type_traits>

#include <linnet/cuda/kernel.cuh>
#include <linnet/cuda/math.cuh>
#include <linnet/cuda/tensor_list.cuh>

/// Optimizer steps, with the formulas of torch.optim. Reading and writing parameters and moments bounds them.

namespace linnet::cuda {
namespace {

/// What a step is made of, once the options are worked out in double.
template <class T>
struct AdamWFactors {
  T step_size, root_correction2, shrink, decay, beta2, eps, rest1, rest2;

  AdamWFactors() = default;
  explicit AdamWFactors(const AdamWOptions& options)
      : step_size(static_cast<T>(options.lr / correction(options.beta1, options.step))),
        root_correction2(static_cast<T>(std::sqrt(correction(options.beta2, options.step)))),
        shrink(static_cast<T>(options.decoupled ? 1 - options.lr * options.weight_decay : 1)),
        decay(static_cast<T>(options.decoupled ? 0 : options.weight_decay)),
        beta2(static_cast<T>(options.beta2)),
        eps(static_cast<T>(options.eps)),
        rest1(static_cast<T>(1 - options.beta1)),
        rest2(static_cast<T>(1 - options.beta2)) {}

 private:
  static double correction(double beta, int64_t step) { return 1 - std::pow(beta, static_cast<double>(step)); }
};

/// AdamW (Loshchilov & Hutter 2019, algorithm 2), or Adam with L2 decay when not decoupled (Kingma & Ba 2015,
/// algorithm 1).
template <class T>
struct AdamWTensor {
  T* param;
  const T* grad;
  T *first, *second;
  int64_t count, first_block;
  AdamWFactors<T> by;

  __device__ void step(int64_t i) const {
    const T p = param[i], g = grad[i] + by.decay * p;
    const T m = first[i] + by.rest1 * (g - first[i]);
    const T v = by.beta2 * second[i] + by.rest2 * g * g;
    first[i] = m;
    second[i] = v;
    param[i] = by.shrink * p - by.step_size * m / (sqrt(v) / by.root_correction2 + by.eps);
  }
};

template <class T>
__global__ void adamw_steps(TensorList<AdamWTensor<T>> tensors) {
  for (int64_t block = blockIdx.x; block < tensors.blocks; block += gridDim.x) {
    const AdamWTensor<T>& tensor = tensors.at(block);
    const int64_t first = tensors.first(tensor, block), end = min(first + tensors.kBlock, tensor.count);
    for (int64_t i = first + threadIdx.x; i < end; i += kThreads) tensor.step(i);
  }
}

/// Tensors of one dtype that wait for their launch.
template <class T>
class AdamWBatch {
 public:
  void add(const AdamWUpdate& update) {
    if (tensors_.is_full()) flush();
    tensors_.add({data<T>(update.param), data<const T>(update.grad), data<T>(update.first_moment),
                  data<T>(update.second_moment), numel(update.param), 0, AdamWFactors<T>(update.options)});
  }

  void flush() {
    launch(adamw_steps<T>, tensors_.blocks, kThreads, tensors_);
    tensors_.count = 0;
    tensors_.blocks = 0;
  }

 private:
  TensorList<AdamWTensor<T>> tensors_{};
};

template <class T>
struct SgdFactors {
  T lr, decay, keep, take, ahead, direct;

  explicit SgdFactors(const SgdOptions& options)
      : lr(static_cast<T>(options.lr)),
        decay(static_cast<T>(options.weight_decay)),
        keep(static_cast<T>(options.momentum)),
        take(static_cast<T>(options.first_step ? 1 : 1 - options.dampening)),
        ahead(static_cast<T>(options.nesterov ? options.momentum : 1)),
        direct(static_cast<T>(options.nesterov ? 1 : 0)) {}
};

/// Stochastic gradient descent with momentum, as PyTorch has it (Sutskever et al. 2013, with the rate outside).
/// `buffer` is null without momentum; in the first step, unwritten so far, it starts as the gradient, undamped.
template <class T>
__global__ void sgd_step(int64_t count, SgdFactors<T> by, bool first_step, T* param, const T* grad, T* buffer) {
  for (int64_t i = first_item(); i < count; i += item_step()) {
    const T p = param[i], g = grad[i] + by.decay * p;
    if (buffer == nullptr) {
      param[i] = p - by.lr * g;
      continue;
    }
    const T velocity = (first_step ? T{0} : by.keep * buffer[i]) + by.take * g;
    buffer[i] = velocity;
    param[i] = p - by.lr * (by.direct * g + by.ahead * velocity);
  }
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

void sgd(View param, View grad, const View* momentum, SgdOptions options) {
  const int64_t count = numel(param);
  dispatch_floating(param.dtype, [&](auto zero) {
    using T = decltype(zero);
    launch(sgd_step<T>, blocks_for(count), kThreads, count, SgdFactors<T>(options), options.first_step,
           data<T>(param), data<const T>(grad), data<T>(momentum));
  });
}

}  // namespace

void fill_optimizer(Backend& table) {
  table.adamw = adamw;
  table.sgd = sgd;
}

}  // namespace linnet::cuda
