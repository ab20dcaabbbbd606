#include <linnet/ops/layers/recurrent.h>

#include <vector>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/arguments.h>
#include <linnet/ops/detail/recurrent.h>
#include <linnet/ops/matmul/matmul.h>

/// One op computes a layer's states of all steps. Its tensor also has the initial state, so the states after the
/// steps and those before them are two views of it: the results, and a factor of the weight's gradient.

namespace linnet {
namespace {

using detail::dense;
using detail::dense_rows;

/// The names and sizes of a kind of cell.
struct CellKind {
  RecurrentCell cell;
  const char *name, *backward_name;
  int64_t gates, states;
};
constexpr CellKind kGru{RecurrentCell::gru, "gru", "gru_backward", 3, 1};
constexpr CellKind kLstm{RecurrentCell::lstm, "lstm", "lstm_backward", 4, 2};

/// The states after all steps, or before them, of `all` [S, T + 1, B, H]: [S, T, B, H] in the order of time.
Tensor states_of_steps(const Tensor& all, bool reverse, bool after) {
  Shape shape = all.shape();
  shape[1] -= 1;
  return detail::as_strided(all, shape, all.strides(), reverse == after ? 0 : all.strides()[1]);
}

Grads states_backward(const CellKind& kind, const Tensor& g, const Tensor& all, const Tensor& gates,
                      const Tensor& weight, const Tensor& lengths, bool reverse, bool needs_weight, bool needs_bias) {
  Op op(kind.backward_name, Where{}, {g, all, gates, weight});
  op.first_derivative_only("linear, sigmoid, tanh and mul");
  const int64_t steps = g.size(1), batch = g.size(2), width = g.size(3);
  const Shape of_gates{steps, batch, kind.gates * width};
  const Tensor dprojected = Tensor::empty(of_gates, g.dtype(), g.device());
  const bool differ = kind.cell == RecurrentCell::gru;  // LSTM adds both sums of each gate
  const Tensor dhidden = differ ? Tensor::empty(of_gates, g.dtype(), g.device()) : dprojected;
  const Tensor dinitial = Tensor::empty({kind.states, batch, width}, g.dtype(), g.device());
  const Tensor dstates = dense(g), factors = dense(weight);
  const detail::OptionalView ends(lengths), separate(differ ? dhidden : Tensor());
  if (g.numel() > 0) {
    backend(g).recurrent_backward(detail::view(dprojected), separate.get(), detail::view(dinitial),
                                  detail::view(dstates), detail::view(all), detail::view(gates),
                                  detail::view(factors), {kind.cell, reverse, ends.get()});
  }
  Tensor dweight, dbias;
  if (needs_weight) {
    const Tensor before = states_of_steps(all, reverse, false).select(0, 0);
    dweight = matmul(transpose(dense_rows(dhidden)), dense_rows(before));
  }
  if (needs_bias) dbias = sum(dense_rows(dhidden), {0});
  return {dprojected, dinitial, dweight, dbias};
}

/// [S, T, B, H], h and with LSTM c after each step, from the sums over the input, projected [T, B, G·H], and the
/// states before the first step, initial [S, B, H].
Tensor states_of(const CellKind& kind, const Tensor& projected, const Tensor& initial, const Tensor& weight,
                 const Tensor& bias, const Tensor& lengths, bool reverse, Where where) {
  Op op(kind.name, where, {projected, initial, weight, bias});
  const DType dtype = op.floating_dtype();
  const Device device = projected.device();
  const int64_t steps = projected.size(0), batch = projected.size(1), width = weight.size(1);
  const Tensor all = Tensor::empty({kind.states, steps + 1, batch, width}, dtype, device);
  Tensor gates;
  bool recorded = false;
  for (size_t i = 0; i < 4; ++i) recorded = recorded || op.needs_grad(i);
  if (recorded && grad_enabled()) gates = Tensor::empty({steps, batch, 4 * width}, dtype, device);
  if (all.numel() > 0) {
    const Tensor first = detail::as_strided(all, initial.shape(), {all.strides()[0], width, 1},
                                            reverse ? steps * all.strides()[1] : 0);
    backend(all).copy(detail::view(first), detail::view(initial));
    const Tensor sums = dense(projected), factors = dense(weight);
    const detail::OptionalView kept(gates), ends(lengths);
    const detail::OptionalView offsets(dense(bias));
    backend(all).recurrent(detail::view(all), kept.get(), detail::view(sums), detail::view(factors), offsets.get(),
                           {kind.cell, reverse, ends.get()});
  }
  return op.record(
      states_of_steps(all, reverse, true),
      [kind, all = op.save(all), gates = op.save(gates), weight = op.save(weight), lengths = op.save(lengths),
       reverse, needs_weight = op.needs_grad(2), needs_bias = op.needs_grad(3)](const Tensor& g) {
        return states_backward(kind, g, all(), gates(), weight(), lengths(), reverse, needs_weight, needs_bias);
      });
}

// ---- Arguments ----

void check_shape(const char* name, const Tensor& tensor, const Shape& expected, const char* meaning) {
  if (!tensor.defined() || tensor.shape() == expected) return;
  throw ShapeError(fmt::format("{}{} must be {}, {}", name, to_string(tensor.shape()), to_string(expected), meaning));
}

void check_recurrent(const CellKind& kind, const Tensor& x, const Tensor& h0, const Tensor& c0,
                     const Tensor& weight_ih, const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh) {
  if (x.rank() != 3) {
    throw ShapeError(fmt::format("x{} must be [T, B, in], steps first{}", to_string(x.shape()),
                                 x.rank() == 2 ? "; unsqueeze(1) makes a batch of one" : ""));
  }
  if (weight_hh.rank() != 2 || weight_hh.size(1) < 1 || weight_hh.size(0) != kind.gates * weight_hh.size(1)) {
    throw ShapeError(fmt::format("weight_hh{} must be [{}·H, H]", to_string(weight_hh.shape()), kind.gates));
  }
  const int64_t width = weight_hh.size(1), columns = kind.gates * width;
  if (weight_ih.rank() != 2 || weight_ih.size(0) != columns) {
    throw ShapeError(fmt::format("weight_ih{} must be [{}, in]", to_string(weight_ih.shape()), columns));
  }
  if (x.size(2) != weight_ih.size(1)) {
    throw ShapeError(fmt::format("x{} has {} features in its last dim, but weight_ih{} takes {}",
                                 to_string(x.shape()), x.size(2), to_string(weight_ih.shape()), weight_ih.size(1)));
  }
  const char* const of_gates = "one number for each row of the weights";
  check_shape("bias_ih", bias_ih, {columns}, of_gates);
  check_shape("bias_hh", bias_hh, {columns}, of_gates);
  const char* const of_states = "one state for each sequence of x [T, B, in]";
  check_shape("h0", h0, {x.size(1), width}, of_states);
  check_shape("c0", c0, {x.size(1), width}, of_states);
}

/// The states of all steps; `output` is h, with 0 past a sequence's end.
struct RecurrentStates {
  Tensor states, output;
  int64_t last;

  Tensor final_state(int64_t i) const { return states.select(0, i).select(0, last); }
};

RecurrentStates run(const CellKind& kind, const Tensor& x, const std::vector<Tensor>& initial,
                    const Tensor& weight_ih, const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh,
                    const RecurrentOptions& options, Where where) {
  if (x.size(0) == 0) throw ShapeError(fmt::format("x{} has no steps; one is needed", to_string(x.shape())));
  const Tensor& lengths = options.lengths;
  const int64_t steps = x.size(0), batch = x.size(1), width = weight_hh.size(1);
  Tensor past_end, real = x;
  if (lengths.defined()) {
    const Tensor times = Recording::constant(arange(steps), x.device());
    past_end = ge(times.reshape({-1, 1, 1}), lengths.reshape({1, -1, 1}));
    real = masked_fill(x, past_end, 0);  // the contents of padding, even NaN, change nothing
  }
  std::vector<Tensor> first;
  first.reserve(initial.size());
  for (const Tensor& state : initial) {
    first.push_back(state.defined() ? state : zeros({batch, width}, x.dtype(), x.device()));
  }
  const Tensor states = states_of(kind, linear(real, weight_ih, bias_ih), stack(first), weight_hh, bias_hh, lengths,
                                  options.reverse, where);
  const Tensor h = states.select(0, 0);
  return {states, lengths.defined() ? masked_fill(h, past_end, 0) : h, options.reverse ? 0 : steps - 1};
}

RecurrentOptions with_checked_lengths(const RecurrentOptions& options, const Tensor& x) {
  return {detail::checked_lengths(options.lengths, x), options.reverse};
}

}  // namespace

Tensor detail::checked_lengths(const Tensor& lengths, const Tensor& x) {
  if (!lengths.defined()) return lengths;
  const int64_t steps = x.size(0), batch = x.size(1);
  if (!is_integer(lengths.dtype())) {
    throw DTypeError(fmt::format("lengths are {}; they must be int64 or int32", name_of(lengths.dtype())));
  }
  if (lengths.shape() != Shape{batch}) {
    throw ShapeError(fmt::format("lengths{} must be [{}], one for each sequence of x{}{}", to_string(lengths.shape()),
                                 batch, to_string(x.shape()),
                                 lengths.shape() == Shape{steps} ? "; is x [B, T, in]? did you mean batch_first, or "
                                                                   "x.transpose(0, 1)?"
                                                                 : ""));
  }
  Recording::check_values(lengths, [=](const Tensor& on_cpu) {
    const std::vector<int64_t> values = on_cpu.to_vector<int64_t>();
    for (size_t b = 0; b < values.size(); ++b) {
      if (values[b] > steps) {
        throw ValueError(fmt::format("lengths[{}] is {}, beyond the {} steps of x; clip the lengths, or pad x", b,
                                     values[b], steps));
      }
      if (values[b] < 1) {
        throw ValueError(
            fmt::format("lengths[{}] is {}; a sequence has at least 1 step: leave the empty ones out", b, values[b]));
      }
    }
  });
  return lengths.to(DType::int64).to(x.device()).contiguous();
}

GRUResult detail::gru_of_checked(const Tensor& x, const Tensor& h0, const Tensor& weight_ih, const Tensor& weight_hh,
                                 const Tensor& bias_ih, const Tensor& bias_hh, const RecurrentOptions& options,
                                 Where where) {
  const Call call("gru", where);
  const RecurrentStates result = run(kGru, x, {h0}, weight_ih, weight_hh, bias_ih, bias_hh, options, where);
  return {result.output, result.final_state(0)};
}

LSTMResult detail::lstm_of_checked(const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& weight_ih,
                                   const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh,
                                   const RecurrentOptions& options, Where where) {
  const Call call("lstm", where);
  const RecurrentStates result = run(kLstm, x, {h0, c0}, weight_ih, weight_hh, bias_ih, bias_hh, options, where);
  return {result.output, result.final_state(0), result.final_state(1)};
}

GRUResult gru(const Tensor& x, const Tensor& h0, const Tensor& weight_ih, const Tensor& weight_hh,
              const Tensor& bias_ih, const Tensor& bias_hh, const RecurrentOptions& options, Where where) {
  const Call call("gru", where);
  check_recurrent(kGru, x, h0, {}, weight_ih, weight_hh, bias_ih, bias_hh);
  return detail::gru_of_checked(x, h0, weight_ih, weight_hh, bias_ih, bias_hh, with_checked_lengths(options, x),
                                where);
}

LSTMResult lstm(const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& weight_ih, const Tensor& weight_hh,
                const Tensor& bias_ih, const Tensor& bias_hh, const RecurrentOptions& options, Where where) {
  const Call call("lstm", where);
  check_recurrent(kLstm, x, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh);
  return detail::lstm_of_checked(x, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh, with_checked_lengths(options, x),
                                 where);
}

}  // namespace linnet
