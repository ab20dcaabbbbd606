#pragma once

#include <linnet/core/tensor.h>

/// One layer of a recurrent network, in one direction, over whole sequences: the ops of nn::GRU and nn::LSTM, which
/// have several layers and both directions.
///
/// Dtypes: one of float32 and float64.
/// Gradient: once; a second derivative needs the formulas composed of linear, sigmoid, tanh and mul.
/// Cost: one matrix product for the input of all steps, and one for the state at each step. Backward takes twice as
/// many; those for the weights are over all steps at once.
/// Throws: ShapeError for shapes that do not fit, with the remedy, and for no steps; DTypeError for other dtypes;
/// ValueError for lengths outside of [1, T].

namespace linnet {

/// Options of gru and lstm.
struct RecurrentOptions {
  /// int64 or int32 [B]: how many steps of each sequence are real, the first ones. Undefined: all T. Later steps have
  /// an output of 0 and leave the state as it is, so that the final state is that of the last real step, and a
  /// reverse layer starts there: what PyTorch's packed sequences give.
  Tensor lengths = {};
  bool reverse = false;  ///< from the last step to the first
};

/// The results of gru.
struct GRUResult {
  Tensor output, h_n;  ///< `output` has every state, and h_n is the last
};

/// h_t = (1 − z) ∘ n + z ∘ h_{t−1}, where, with sums x·weight_ihᵀ + bias_ih and h_{t−1}·weight_hhᵀ + bias_hh,
/// r = σ(x_r + h_r), z = σ(x_z + h_z) and n = tanh(x_n + r ∘ h_n). The rows of the weights are for r, z and n, in
/// this order. An undefined h0 or bias stands for 0.
///
/// Shapes: x [T, B, in], h0 [B, H], weight_ih [3·H, in], weight_hh [3·H, H], biases [3·H] → output [T, B, H],
/// h_n [B, H].
/// Source: Cho et al. 2014, eqs. 5–8, with the reset r after the product, as in PyTorch.
GRUResult gru(const Tensor& x, const Tensor& h0, const Tensor& weight_ih, const Tensor& weight_hh,
              const Tensor& bias_ih = {}, const Tensor& bias_hh = {}, const RecurrentOptions& options = {},
              Where where = {});

/// The results of lstm.
struct LSTMResult {
  Tensor output, h_n, c_n;  ///< `output` has every state h, h_n is the last h, and c_n the last cell state
};

/// c_t = f ∘ c_{t−1} + i ∘ g, h_t = o ∘ tanh(c_t), where, with the sums of gru, i = σ(x_i + h_i), f = σ(x_f + h_f),
/// g = tanh(x_g + h_g) and o = σ(x_o + h_o). The rows of the weights are for i, f, g and o, in this order. An
/// undefined h0, c0 or bias stands for 0.
///
/// Shapes: x [T, B, in], h0 and c0 [B, H], weight_ih [4·H, in], weight_hh [4·H, H], biases [4·H] → output [T, B, H],
/// h_n and c_n [B, H].
/// Source: Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000.
LSTMResult lstm(const Tensor& x, const Tensor& h0, const Tensor& c0, const Tensor& weight_ih, const Tensor& weight_hh,
                const Tensor& bias_ih = {}, const Tensor& bias_hh = {}, const RecurrentOptions& options = {},
                Where where = {});

}  // namespace linnet
