#include <linnet/nn/recurrent/recurrent.h>

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include <linnet/core/autograd/recording.h>
#include <linnet/core/error.h>
#include <linnet/nn/init.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/detail/recurrent.h>

namespace linnet::nn {
namespace {

/// The number of real steps of each sequence, from a mask [B, T] whose padding comes last. Only the mask is checked,
/// because a Recording refuses checks of computed lengths.
Tensor lengths_of(const Tensor& padding_mask) {
  Recording::check_values(padding_mask, [](const Tensor& on_cpu) {
    const Tensor dense = on_cpu.contiguous();
    const std::span<const bool> real = dense.data<bool>();
    const auto steps = static_cast<size_t>(dense.size(1));
    for (size_t first = 0; first < real.size(); first += steps) {
      const std::span<const bool> row = real.subspan(first, steps);
      const auto end = std::ranges::find(row, false), late = std::find(end, row.end(), true);
      if (late != row.end()) {
        throw ValueError(fmt::format(
            "padding_mask[{}] has padding before the real step {}; padding comes last: move the real steps "
            "to the front",
            first / steps, late - row.begin()));
      }
      if (end == row.begin()) {
        throw ValueError(fmt::format(
            "padding_mask[{}] has no real step; a sequence has at least 1: leave the empty ones out", first / steps));
      }
    }
  });
  return sum(padding_mask, {1});
}

}  // namespace

Recurrent::Recurrent(Module& parent, std::string name, const char* kind, int64_t gates, int64_t input_size,
                     int64_t hidden_size, const RecurrentConfig& config)
    : Module(parent, std::move(name),
             fmt::format("{} {}→{}{}{}", kind, input_size, hidden_size,
                         config.num_layers == 1 ? "" : fmt::format(", {} layers", config.num_layers),
                         config.bidirectional ? ", both directions" : "")),
      input_size_(input_size),
      hidden_size_(hidden_size),
      config_(config) {
  if (input_size < 1 || hidden_size < 1 || config.num_layers < 1) {
    throw ValueError(fmt::format("{}: sizes and num_layers must be at least 1", label()));
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    throw ValueError(fmt::format("{}: dropout must be in [0, 1), not {}", label(), config.dropout));
  }
  if (config.dropout > 0 && config.num_layers == 1) {
    throw ValueError(
        fmt::format("{}: dropout acts between layers, and there is one; take more num_layers, or put an nn::Dropout "
                    "behind this layer",
                    label()));
  }
  const int64_t directions = config.bidirectional ? 2 : 1, rows = gates * hidden_size;
  const double bound = 1 / std::sqrt(static_cast<double>(hidden_size));
  for (int64_t layer = 0; layer < config.num_layers; ++layer) {
    for (int64_t direction = 0; direction < directions; ++direction) {
      const auto add = [&](const char* prefix, const Shape& shape) {
        const std::string full = fmt::format("{}_l{}{}", prefix, layer, direction == 0 ? "" : "_reverse");
        Tensor values = parameter(full, Tensor::empty(shape, dtype(), device()));
        init::uniform_(values, generator(), -bound, bound);
        return values;
      };
      Weights& weights = weights_.emplace_back();
      weights.ih = add("weight_ih", {rows, layer == 0 ? input_size : directions * hidden_size});
      weights.hh = add("weight_hh", {rows, hidden_size});
      if (!config.bias) continue;
      weights.bias_ih = add("bias_ih", {rows});
      weights.bias_hh = add("bias_hh", {rows});
    }
  }
}

std::vector<Setting> Recurrent::settings() const {
  return {{"num_layers", config_.num_layers},
          {"bidirectional", config_.bidirectional},
          {"batch_first", config_.batch_first, /*may_differ=*/true},
          {"dropout", config_.dropout, /*may_differ=*/true}};
}

void Recurrent::check_inputs(const Tensor& x, const LSTMInputs& inputs) const {
  const char* const layout = config_.batch_first ? "[B, T, in]" : "[T, B, in]";
  if (x.rank() != 3 || x.size(2) != input_size_) {
    const std::string remedy =
        x.rank() == 2 ? fmt::format("; unsqueeze({}) makes a batch of one", config_.batch_first ? 0 : 1) : "";
    throw ShapeError(fmt::format("x{} must be {} with in = {}{}", to_string(x.shape()), layout, input_size_, remedy));
  }
  const int64_t batch = x.size(config_.batch_first ? 0 : 1), steps = x.size(config_.batch_first ? 1 : 0);
  const auto check = [&](const char* name, const Tensor& tensor, int batch_dim, const Shape& expected) {
    if (!tensor.defined() || tensor.shape() == expected) return;
    const bool other_dim_fits = batch != steps && tensor.rank() == expected.rank() && tensor.size(batch_dim) == steps;
    const std::string remedy =
        other_dim_fits ? fmt::format("; is dim {} of x its batch? then build the layer with {{.batch_first = {}}}",
                                     config_.batch_first ? 1 : 0, !config_.batch_first)
                       : "";
    throw ShapeError(fmt::format("{}{} must be {} for x{}, which is read as {}{}", name, to_string(tensor.shape()),
                                 to_string(expected), to_string(x.shape()), layout, remedy));
  };
  check("h0", inputs.h0, 1, {std::ssize(weights_), batch, hidden_size_});
  check("c0", inputs.c0, 1, {std::ssize(weights_), batch, hidden_size_});
  check("lengths", inputs.lengths, 0, {batch});
  check("padding_mask", inputs.padding_mask, 0, {batch, steps});
  if (!inputs.padding_mask.defined()) return;
  if (inputs.lengths.defined()) throw ValueError("takes lengths or a padding_mask, and not both");
  if (inputs.padding_mask.dtype() != DType::boolean) {
    throw DTypeError(fmt::format("padding_mask is {}; it must be bool, false where a step is padding",
                                 name_of(inputs.padding_mask.dtype())));
  }
}

LSTMResult Recurrent::run(const Tensor& x, const LSTMInputs& inputs,
                          LSTMResult (*layer)(const Tensor& x, const Tensor& h0, const Tensor& c0,
                                              const Weights& weights, const RecurrentOptions& options)) const {
  check_inputs(x, inputs);
  const size_t directions = config_.bidirectional ? 2 : 1;
  Tensor y = config_.batch_first ? x.transpose(0, 1) : x;
  const Tensor lengths = inputs.padding_mask.defined() ? lengths_of(inputs.padding_mask).to(x.device()).contiguous()
                                                       : linnet::detail::checked_lengths(inputs.lengths, y);
  std::vector<Tensor> h_n, c_n;
  for (size_t first = 0; first < weights_.size(); first += directions) {
    if (first > 0 && config_.dropout > 0) y = dropout(y, config_.dropout, generator(), training());
    std::vector<Tensor> outputs;
    for (size_t i = first; i < first + directions; ++i) {
      const auto state = [&](const Tensor& of_all) {
        return of_all.defined() ? of_all.select(0, static_cast<int64_t>(i)) : of_all;
      };
      const LSTMResult result =
          layer(y, state(inputs.h0), state(inputs.c0), weights_[i], {.lengths = lengths, .reverse = i > first});
      outputs.push_back(result.output);
      h_n.push_back(result.h_n);
      if (result.c_n.defined()) c_n.push_back(result.c_n);
    }
    y = directions == 1 ? outputs[0] : concat(outputs, -1);
  }
  return {config_.batch_first ? y.transpose(0, 1) : y, stack(h_n), c_n.empty() ? Tensor() : stack(c_n)};
}

GRU::GRU(Module& parent, std::string name, int64_t input_size, int64_t hidden_size, const RecurrentConfig& config)
    : Recurrent(parent, std::move(name), "GRU", 3, input_size, hidden_size, config) {}

GRUResult GRU::operator()(const Tensor& x, const GRUInputs& inputs, Where where) const {
  const Call call(label(), where);
  const LSTMResult result = run(
      x, {inputs.h0, {}, inputs.lengths, inputs.padding_mask},
      [](const Tensor& y, const Tensor& h0, const Tensor&, const Weights& weights, const RecurrentOptions& options) {
        const GRUResult of_layer =
            linnet::detail::gru_of_checked(y, h0, weights.ih, weights.hh, weights.bias_ih, weights.bias_hh, options);
        return LSTMResult{of_layer.output, of_layer.h_n, {}};
      });
  return {result.output, result.h_n};
}

LSTM::LSTM(Module& parent, std::string name, int64_t input_size, int64_t hidden_size, const RecurrentConfig& config)
    : Recurrent(parent, std::move(name), "LSTM", 4, input_size, hidden_size, config) {}

LSTMResult LSTM::operator()(const Tensor& x, const LSTMInputs& inputs, Where where) const {
  const Call call(label(), where);
  return run(x, inputs,
             [](const Tensor& y, const Tensor& h0, const Tensor& c0, const Weights& weights,
                const RecurrentOptions& options) {
               return linnet::detail::lstm_of_checked(y, h0, c0, weights.ih, weights.hh, weights.bias_ih,
                                                      weights.bias_hh, options);
             });
}

}  // namespace linnet::nn
