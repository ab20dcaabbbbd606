#include <algorithm>
#include <optional>

#include <linnet/ops/cpu/device/kernel.h>
#include <linnet/ops/cpu/device/scratch.h>
#include <linnet/ops/cpu/device/vector_math.h>
#include <linnet/ops/cpu/matmul/serial_gemm.h>

/// Recurrent layers, one step after another. A step is a matrix product with the weight, which is packed once for all
/// steps, and one loop over the gates. Backward writes the gates' gradients of all steps, from which the caller
/// computes those of the weights in one product.

namespace linnet::cpu::LINNET_ISA {
namespace {

/// The number of tasks of a step's product, and the least multiplications of a task. More tasks than threads spread
/// evenly.
constexpr int64_t kStepTasks = 8, kStepWork = int64_t{1} << 18;
/// The cost of a step's gates for each number of the state, in additions.
constexpr int64_t kGateCost = 64;

/// The sizes of a recurrent layer, and its order of steps.
struct Recurrence {
  int64_t steps, batch, width, gates;  // gates: the rows of the weight for all gates, G·H
  bool reverse;
  const int64_t* lengths;

  Recurrence(const View& projected, const View& weight, const RecurrentParams& params)
      : steps(projected.shape[0]),
        batch(projected.shape[1]),
        width(weight.shape[1]),
        gates(weight.shape[0]),
        reverse(params.reverse),
        lengths(params.lengths != nullptr ? data<int64_t>(*params.lengths) : nullptr) {}

  int64_t time(int64_t step) const { return reverse ? steps - 1 - step : step; }
  /// The indices of the states before and after a time, among T + 1.
  int64_t before(int64_t time) const { return reverse ? time + 1 : time; }
  int64_t after(int64_t time) const { return reverse ? time : time + 1; }
  bool is_past_end(int64_t time, int64_t sequence) const { return lengths != nullptr && time >= lengths[sequence]; }
  /// The elements of one state of the batch.
  int64_t state() const { return batch * width; }

  /// Calls `f` for each sequence.
  template <class F>
  void for_each_sequence(F f) const {
    parallel_for(batch, std::max<int64_t>(1, kGrain / (kGateCost * width)), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) f(b);
    });
  }
};

/// Products a·b + base of one b [depth, width] with many a [rows, depth].
template <class T>
class StepProduct {
 public:
  StepProduct(Matrix<T> b, int64_t rows, int64_t depth, int64_t width)
      : b_(b),
        depth_(depth),
        width_(width),
        thin_(is_thin<T>(rows, width)),
        too_short_(kUsesBf16x3<T> && depth < bf16x3::kDepth),
        rows_(rows, thin_ ? rows : std::max(kThinRows, ceil_div(rows, 2))) {
    constexpr int64_t kPanel = kUsesBf16x3<T> ? bf16x3::kPanel : packed::kWidth<T>;
    const int64_t tasks = std::clamp<int64_t>(rows * depth * width / kStepWork, 1, kStepTasks);
    columns_ = round_up(ceil_div(width, tasks), kPanel);
    if (!thin_ && !too_short_) panels_.emplace(b, depth, width);
  }

  void operator()(Matrix<T> a, Rows<const T> base, Rows<T> c) const {
    parallel_tasks(rows_.count * ceil_div(width_, columns_), [&](int64_t task) {
      const int64_t row = rows_.begin(task % rows_.count), rows = rows_.size(task % rows_.count);
      const int64_t column = task / rows_.count * columns_, columns = std::min(columns_, width_ - column);
      const Rows<const T> offsets = product::base_at(base, row, column);
      const Rows<T> out{c[row] + column, c.stride};
      if (thin_) return thin_gemm<T>(rows, columns, depth_, a.from(row, 0), b_.from(0, column), offsets, out);
      const auto panel_at = [&](int64_t k, int64_t x) { return panels_ ? panels_->at(k, column + x) : nullptr; };
      tiled_gemm<T>(rows, columns, depth_, a.from(row, 0), b_.from(0, column), panel_at, too_short_, offsets, out);
    });
  }

 private:
  Matrix<T> b_;
  int64_t depth_, width_, columns_ = 0;
  bool thin_, too_short_;
  product::EvenSplit rows_;
  std::optional<SharedPanels<T>> panels_;
};

// ---- One sequence's gates of one step, and their gradients ----

/// r = σ(x_r + h_r), z = σ(x_z + h_z), n = tanh(x_n + r ∘ h_n), h = (1 − z) ∘ n + z ∘ before, where x_r is r's sum
/// over the input and h_r that over the state before (Cho et al. 2014, eqs. 5–8, with the reset after the product).
template <class T>
void gru_step(int64_t width, const T* x, const T* sums, const T* before, T* h, T* gates) {
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) {
    const T r = vec::sigmoid(x[j] + sums[j]), z = vec::sigmoid(x[width + j] + sums[width + j]);
    const T h_n = sums[2 * width + j], n = vec::tanh(x[2 * width + j] + r * h_n);
    h[j] = (T{1} - z) * n + z * before[j];
    gates[j] = r;
    gates[width + j] = z;
    gates[2 * width + j] = n;
    gates[3 * width + j] = h_n;
  }
}

/// From dh = dy + carry: the gradients of the sums over the input and over the state before, and z ∘ dh, the part of
/// that state's gradient that does not go through the weight.
template <class T>
void gru_step_backward(int64_t width, const T* dy, const T* carry, const T* before, const T* gates, T* dx, T* dsums,
                       T* direct) {
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) {
    const T r = gates[j], z = gates[width + j], n = gates[2 * width + j], h_n = gates[3 * width + j];
    const T dh = dy[j] + carry[j];
    const T dn = dh * (T{1} - z) * (T{1} - n * n);
    const T dr = dn * h_n * r * (T{1} - r), dz = dh * (before[j] - n) * z * (T{1} - z);
    dx[j] = dsums[j] = dr;
    dx[width + j] = dsums[width + j] = dz;
    dx[2 * width + j] = dn;
    dsums[2 * width + j] = dn * r;
    direct[j] = dh * z;
  }
}

/// i, f, o = σ(x + sums), g = tanh(x + sums), c = f ∘ c_before + i ∘ g, h = o ∘ tanh(c) (Hochreiter & Schmidhuber
/// 1997, with the forget gate of Gers et al. 2000).
template <class T>
void lstm_step(int64_t width, const T* x, const T* sums, const T* c_before, T* h, T* c, T* gates) {
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) {
    const T i = vec::sigmoid(x[j] + sums[j]), f = vec::sigmoid(x[width + j] + sums[width + j]);
    const T g = vec::tanh(x[2 * width + j] + sums[2 * width + j]);
    const T o = vec::sigmoid(x[3 * width + j] + sums[3 * width + j]);
    c[j] = f * c_before[j] + i * g;
    h[j] = o * vec::tanh(c[j]);
    gates[j] = i;
    gates[width + j] = f;
    gates[2 * width + j] = g;
    gates[3 * width + j] = o;
  }
}

/// From dh = dy + carry and dc = dy_c + carry_c: the gradients of the sums, and in `carry_c` that of c before.
template <class T>
void lstm_step_backward(int64_t width, const T* dy, const T* dy_c, const T* carry, const T* c_before, const T* c,
                        const T* gates, T* dx, T* carry_c) {
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) {
    const T i = gates[j], f = gates[width + j], g = gates[2 * width + j], o = gates[3 * width + j];
    const T dh = dy[j] + carry[j], squashed = vec::tanh(c[j]);
    const T dc = dy_c[j] + carry_c[j] + dh * o * (T{1} - squashed * squashed);
    dx[j] = dc * g * i * (T{1} - i);
    dx[width + j] = dc * c_before[j] * f * (T{1} - f);
    dx[2 * width + j] = dc * i * (T{1} - g * g);
    dx[3 * width + j] = dh * squashed * o * (T{1} - o);
    carry_c[j] = dc * f;
  }
}

// ---- All steps ----

template <class T>
void run_steps(const Recurrence& s, bool lstm, T* states, T* gates, const T* projected, const T* weight,
               const T* bias) {
  const StepProduct<T> times_weight({weight, 1, s.width}, s.batch, s.width, s.gates);
  const Scratch<T> sums(s.batch * s.gates), unsaved(gates == nullptr ? 4 * s.state() : 0);
  const int64_t cells = (s.steps + 1) * s.state();  // from a state h to its c
  for (int64_t step = 0; step < s.steps; ++step) {
    const int64_t t = s.time(step);
    const T* const before = states + s.before(t) * s.state();
    T* const after = states + s.after(t) * s.state();
    times_weight({before, s.width, 1}, {bias, 0}, {sums.data(), s.gates});
    s.for_each_sequence([&](int64_t b) {
      const int64_t at = b * s.width;
      const T* const x = projected + (t * s.batch + b) * s.gates;
      T* const kept = gates != nullptr ? gates + 4 * (t * s.state() + at) : unsaved.data() + 4 * at;
      if (s.is_past_end(t, b)) {
        std::copy_n(before + at, s.width, after + at);
        if (lstm) std::copy_n(before + cells + at, s.width, after + cells + at);
      } else if (lstm) {
        lstm_step<T>(s.width, x, &sums[b * s.gates], before + cells + at, after + at, after + cells + at, kept);
      } else {
        gru_step<T>(s.width, x, &sums[b * s.gates], before + at, after + at, kept);
      }
    });
  }
}

/// `carry` [S, B, H] is the gradient of the states after a step that comes from the steps after it. In the end it is
/// that of the initial states.
template <class T>
void run_steps_backward(const Recurrence& s, bool lstm, T* dprojected, T* dhidden, T* carry, const T* dstates,
                        const T* states, const T* gates, const T* weight) {
  const StepProduct<T> times_weight({weight, s.width, 1}, s.batch, s.gates, s.width);
  const Scratch<T> direct(s.state());
  const int64_t cells = (s.steps + 1) * s.state(), dcells = s.steps * s.state();
  std::fill_n(carry, (lstm ? 2 : 1) * s.state(), T{0});
  for (int64_t step = s.steps - 1; step >= 0; --step) {
    const int64_t t = s.time(step);
    const T* const before = states + s.before(t) * s.state();
    const T* const after = states + s.after(t) * s.state();
    s.for_each_sequence([&](int64_t b) {
      const int64_t at = b * s.width, row = (t * s.batch + b) * s.gates;
      const T* const dy = dstates + t * s.state() + at;
      const T* const kept = gates + 4 * (t * s.state() + at);
      if (s.is_past_end(t, b)) {
        std::fill_n(dprojected + row, s.gates, T{0});
        if (dhidden != dprojected) std::fill_n(dhidden + row, s.gates, T{0});
        for (int64_t j = 0; j < s.width; ++j) direct[at + j] = dy[j] + carry[at + j];
        for (int64_t j = 0; lstm && j < s.width; ++j) carry[s.state() + at + j] += dy[dcells + j];
      } else if (lstm) {
        lstm_step_backward<T>(s.width, dy, dy + dcells, carry + at, before + cells + at, after + cells + at, kept,
                              dprojected + row, carry + s.state() + at);
        std::fill_n(&direct[at], s.width, T{0});
      } else {
        gru_step_backward<T>(s.width, dy, carry + at, before + at, kept, dprojected + row, dhidden + row,
                             &direct[at]);
      }
    });
    times_weight({dhidden + t * s.batch * s.gates, s.gates, 1}, {direct.data(), s.width}, {carry, s.width});
  }
}

void recurrent(View states, const View* gates, View projected, View weight, const View* bias,
               const RecurrentParams& params) {
  dispatch_floating(states.dtype, [&]<class T>(T) {
    run_steps<T>({projected, weight, params}, params.cell == RecurrentCell::lstm, data<T>(states),
                 gates != nullptr ? data<T>(*gates) : nullptr, data<T>(projected), data<T>(weight),
                 bias != nullptr ? data<T>(*bias) : nullptr);
  });
}

void recurrent_backward(View dprojected, const View* dhidden, View dinitial, View dstates, View states, View gates,
                        View weight, const RecurrentParams& params) {
  dispatch_floating(states.dtype, [&]<class T>(T) {
    run_steps_backward<T>({dprojected, weight, params}, params.cell == RecurrentCell::lstm, data<T>(dprojected),
                          data<T>(dhidden != nullptr ? *dhidden : dprojected), data<T>(dinitial), data<T>(dstates),
                          data<T>(states), data<T>(gates), data<T>(weight));
  });
}

}  // namespace

void fill_recurrent(Backend& table) {
  table.recurrent = recurrent;
  table.recurrent_backward = recurrent_backward;
}

}  // namespace linnet::cpu::LINNET_ISA
