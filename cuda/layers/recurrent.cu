#include <linnet/cuda/device/kernel.cuh>
#include <linnet/cuda/device/math.cuh>
#include <linnet/cuda/device/scratch.cuh>
#include <linnet/cuda/matmul/blas.cuh>

/// Recurrent layers, one step after another, as in ops/cpu/layers/recurrent.cpp, which cites the formulas' sources. A
/// step is a product by cuBLAS and a kernel with a thread for each number of the state. Launches bound short steps.

namespace linnet::cuda {
namespace {

/// The sizes of a recurrent layer, and its order of steps.
struct Recurrence {
  int64_t steps, batch, width, gates;  // gates: the rows of the weight for all gates together
  bool reverse, lstm;
  const int64_t* lengths;

  Recurrence(const View& projected, const View& weight, const RecurrentParams& params)
      : steps(projected.shape[0]),
        batch(projected.shape[1]),
        width(weight.shape[1]),
        gates(weight.shape[0]),
        reverse(params.reverse),
        lstm(params.cell == RecurrentCell::lstm),
        lengths(data<const int64_t>(params.lengths)) {}

  int64_t time(int64_t step) const { return reverse ? steps - 1 - step : step; }
  /// The indices, among T + 1, of the states before and after a time step.
  int64_t before(int64_t time) const { return reverse ? time + 1 : time; }
  int64_t after(int64_t time) const { return reverse ? time : time + 1; }
  __device__ bool is_past_end(int64_t time, int64_t sequence) const {
    return lengths != nullptr && time >= lengths[sequence];
  }
  /// The number of elements of one state of the batch, and the offset from a state h to its c.
  __host__ __device__ int64_t state() const { return batch * width; }
  __host__ __device__ int64_t cells() const { return (steps + 1) * state(); }
};

/// Computes the gates of time t and the state after it. The gates' pre-activations have a part from the input,
/// `projected`, and a part from the state before, `sums`.
template <class T>
__global__ void step_gates(Recurrence s, int64_t t, const T* projected, const T* sums, const T* bias, const T* before,
                           T* after, T* gates) {
  for (int64_t item = first_item(); item < s.state(); item += item_step()) {
    const int64_t b = item / s.width, j = item % s.width;
    if (s.is_past_end(t, b)) {
      after[item] = before[item];
      if (s.lstm) after[s.cells() + item] = before[s.cells() + item];
      continue;
    }
    const T *x = projected + (t * s.batch + b) * s.gates + j, *row = sums + b * s.gates + j;
    const auto sum = [&](int gate) {
      return row[gate * s.width] + (bias != nullptr ? bias[gate * s.width + j] : T(0));
    };
    T* const kept = gates != nullptr ? gates + 4 * (t * s.batch + b) * s.width + j : nullptr;
    const auto keep = [&](int gate, T value) {
      if (kept != nullptr) kept[gate * s.width] = value;
    };
    if (s.lstm) {
      const T i = sigmoid(x[0] + sum(0)), f = sigmoid(x[s.width] + sum(1));
      const T g = tanh(x[2 * s.width] + sum(2)), o = sigmoid(x[3 * s.width] + sum(3));
      const T c = f * before[s.cells() + item] + i * g;
      after[s.cells() + item] = c;
      after[item] = o * tanh(c);
      keep(0, i);
      keep(1, f);
      keep(2, g);
      keep(3, o);
    } else {
      const T r = sigmoid(x[0] + sum(0)), z = sigmoid(x[s.width] + sum(1));
      const T h_n = sum(2), n = tanh(x[2 * s.width] + r * h_n);
      after[item] = (T(1) - z) * n + z * before[item];
      keep(0, r);
      keep(1, z);
      keep(2, n);
      keep(3, h_n);
    }
  }
}

/// Computes from dh = dy + carry, and for LSTM dc, the gradients of the gates' pre-activations. `carry` becomes the
/// part of the gradient of the state before that does not go through the weight.
template <class T>
__global__ void step_gates_backward(Recurrence s, int64_t t, const T* dstates, const T* before, const T* after,
                                    const T* gates, T* dprojected, T* dhidden, T* carry) {
  for (int64_t item = first_item(); item < s.state(); item += item_step()) {
    const int64_t b = item / s.width, j = item % s.width, at = (t * s.batch + b) * s.gates + j;
    T *dx = dprojected + at, *dsums = dhidden + at;
    const T dh = dstates[t * s.state() + item] + carry[item];
    const T* const kept = gates + 4 * (t * s.batch + b) * s.width + j;
    T* const carry_c = carry + s.state();
    const T dc_after = s.lstm ? dstates[(s.steps + t) * s.state() + item] + carry_c[item] : T(0);
    if (s.is_past_end(t, b)) {
      for (int64_t gate = 0; gate < s.gates; gate += s.width) dx[gate] = dsums[gate] = T(0);
      carry[item] = dh;
      if (s.lstm) carry_c[item] = dc_after;
    } else if (s.lstm) {
      const T i = kept[0], f = kept[s.width], g = kept[2 * s.width], o = kept[3 * s.width];
      const T squashed = tanh(after[s.cells() + item]);
      const T dc = dc_after + dh * o * (T(1) - squashed * squashed);
      dx[0] = dc * g * i * (T(1) - i);
      dx[s.width] = dc * before[s.cells() + item] * f * (T(1) - f);
      dx[2 * s.width] = dc * i * (T(1) - g * g);
      dx[3 * s.width] = dh * squashed * o * (T(1) - o);
      carry[item] = T(0);
      carry_c[item] = dc * f;
    } else {
      const T r = kept[0], z = kept[s.width], n = kept[2 * s.width], h_n = kept[3 * s.width];
      const T dn = dh * (T(1) - z) * (T(1) - n * n);
      dx[0] = dsums[0] = dn * h_n * r * (T(1) - r);
      dx[s.width] = dsums[s.width] = dh * (before[item] - n) * z * (T(1) - z);
      dx[2 * s.width] = dn;
      dsums[2 * s.width] = dn * r;
      carry[item] = dh * z;
    }
  }
}

template <class T>
void run_steps(const Recurrence& s, T* states, T* gates, const T* projected, const T* weight, const T* bias) {
  const Scratch<T> sums(s.batch * s.gates);
  for (int64_t step = 0; step < s.steps; ++step) {
    const int64_t t = s.time(step);
    const T* const before = states + s.before(t) * s.state();
    gemm<T, T>(1, s.batch, s.gates, s.width, {before, s.width, 0, false}, {weight, s.width, 0, true}, false,
               {sums.data(), s.gates, 0, false});
    launch(step_gates<T>, blocks_for(s.state()), kThreads, s, t, projected, sums.data(), bias, before,
           states + s.after(t) * s.state(), gates);
  }
}

/// `carry` [S, B, H] is the gradient of the states after a step, from all later steps; at the end, of the initial
/// state.
template <class T>
void run_steps_backward(const Recurrence& s, T* dprojected, T* dhidden, const View& dinitial, const T* dstates,
                        const T* states, const T* gates, const T* weight) {
  T* const carry = data<T>(dinitial);
  cuda_backend().fill(dinitial, 0);
  for (int64_t step = s.steps - 1; step >= 0; --step) {
    const int64_t t = s.time(step);
    launch(step_gates_backward<T>, blocks_for(s.state()), kThreads, s, t, dstates, states + s.before(t) * s.state(),
           states + s.after(t) * s.state(), gates, dprojected, dhidden, carry);
    gemm<T, T>(1, s.batch, s.width, s.gates, {dhidden + t * s.batch * s.gates, s.gates, 0, false},
               {weight, s.width, 0, false}, true, {carry, s.width, 0, false});
  }
}

void recurrent(View states, const View* gates, View projected, View weight, const View* bias,
               const RecurrentParams& params) {
  dispatch_floating(states.dtype, [&](auto zero) {
    using T = decltype(zero);
    run_steps<T>({projected, weight, params}, data<T>(states), data<T>(gates), data<const T>(projected),
                 data<const T>(weight), data<const T>(bias));
  });
}

void recurrent_backward(View dprojected, const View* dhidden, View dinitial, View dstates, View states, View gates,
                        View weight, const RecurrentParams& params) {
  dispatch_floating(states.dtype, [&](auto zero) {
    using T = decltype(zero);
    run_steps_backward<T>({dprojected, weight, params}, data<T>(dprojected),
                          dhidden != nullptr ? data<T>(dhidden) : data<T>(dprojected), dinitial,
                          data<const T>(dstates), data<const T>(states), data<const T>(gates), data<const T>(weight));
  });
}

}  // namespace

void fill_recurrent(Backend& table) {
  table.recurrent = recurrent;
  table.recurrent_backward = recurrent_backward;
}

}  // namespace linnet::cuda
