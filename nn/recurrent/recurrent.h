#pragma once

#include <linnet/nn/module.h>
#include <linnet/ops/layers/recurrent.h>

namespace linnet::nn {

/// Options of a GRU and an LSTM, as in PyTorch.
struct RecurrentConfig {
  int64_t num_layers = 1;      ///< each layer reads the output of the one before it
  bool bias = true;            ///< whether it has biases
  bool batch_first = false;    ///< whether x and the output are [B, T, …] instead of [T, B, …]; states are the same
  double dropout = 0;          ///< in training, of the output of each layer except the last
  bool bidirectional = false;  ///< whether each layer also runs from the last step to the first
};

/// Inputs of a GRU besides x. An undefined state means zeros; without lengths and mask there is no padding.
struct GRUInputs {
  Tensor h0 = {};            ///< [directions·layers, B, H]
  Tensor lengths = {};       ///< int64 or int32 [B]: the real steps of each sequence, as in RecurrentOptions
  Tensor padding_mask = {};  ///< instead of lengths: bool [B, T], false where a step is padding, which comes last
};

/// Inputs of an LSTM besides x.
struct LSTMInputs {
  Tensor h0 = {}, c0 = {};   ///< [directions·layers, B, H]
  Tensor lengths = {};       ///< as GRUInputs::lengths
  Tensor padding_mask = {};  ///< as GRUInputs::padding_mask
};

/// The base of GRU and LSTM: it has their parameters, and goes through layers and directions. The parameters have
/// PyTorch's names, `weight_ih_l0`, `weight_hh_l0`, `bias_ih_l0`, `bias_hh_l0`, then those of `…_l0_reverse` and of
/// further layers. They start as U(−1/√H, 1/√H).
class Recurrent : public Module {
 public:
  std::vector<Setting> settings() const override;

 protected:
  /// Throws: ValueError for sizes below 1, and for dropout outside of [0, 1) or without a second layer.
  Recurrent(Module& parent, std::string name, const char* kind, int64_t gates, int64_t input_size,
            int64_t hidden_size, const RecurrentConfig& config);
  /// Never runs. A layer outside of a module needs it, so that the compiler's only error is the message that refuses
  /// the layer.
  explicit Recurrent(Generator& rng) : Module(rng) {}

  /// The parameters of a layer in one direction.
  struct Weights {
    Tensor ih, hh, bias_ih, bias_hh;  ///< named as the parameters
  };
  /// Applies `layer` to each layer and direction, with the initial states if they are defined. c_n is undefined if
  /// `layer` leaves it undefined.
  LSTMResult run(const Tensor& x, const LSTMInputs& inputs,
                 LSTMResult (*layer)(const Tensor& x, const Tensor& h0, const Tensor& c0, const Weights& weights,
                                     const RecurrentOptions& options)) const;

 private:
  void check_inputs(const Tensor& x, const LSTMInputs& inputs) const;

  int64_t input_size_ = 0, hidden_size_ = 0;
  RecurrentConfig config_;
  std::vector<Weights> weights_;  // layer by layer, each with its directions
};

/// Layers of gated recurrent units (see gru).
///
///     struct Reader : nn::Module {
///       explicit Reader(Generator& rng) : Module(rng) {}
///       nn::GRU gru{*this, "gru", 32, 64, {.num_layers = 2, .batch_first = true}};
///       Tensor operator()(const Tensor& x, const Tensor& later, const Tensor& lengths) const {
///         const auto [output, h_n] = gru(x, {.lengths = lengths});  // from states of 0, with padding at the end
///         return gru(later, {.h0 = h_n}).output;                    // goes on where x ended
///       }
///     };
class GRU : public Recurrent {
 public:
  /// Throws: as Recurrent.
  GRU(Module& parent, std::string name, int64_t input_size, int64_t hidden_size, const RecurrentConfig& config = {});
  template <NotAModule First, class... Rest>
  GRU(First&& first, Rest&&...) : Recurrent(refuse_outside_of_a_module(first)) {}

  /// Shapes: x [T, B, in] → output [T, B, directions·H], or both batch first; h_n [directions·layers, B, H].
  /// Throws: as gru; ShapeError for states and masks that do not fit; DTypeError for a mask that is not bool;
  /// ValueError for padding before a real step, and for both lengths and a mask.
  GRUResult operator()(const Tensor& x, const GRUInputs& inputs = {}, Where where = {}) const;
};

/// Layers of long short-term memory (see lstm).
class LSTM : public Recurrent {
 public:
  /// Throws: as Recurrent.
  LSTM(Module& parent, std::string name, int64_t input_size, int64_t hidden_size, const RecurrentConfig& config = {});
  template <NotAModule First, class... Rest>
  LSTM(First&& first, Rest&&...) : Recurrent(refuse_outside_of_a_module(first)) {}

  /// Shapes: as GRU, with c_n as h_n.
  /// Throws: as GRU.
  LSTMResult operator()(const Tensor& x, const LSTMInputs& inputs = {}, Where where = {}) const;
};

}  // namespace linnet::nn
