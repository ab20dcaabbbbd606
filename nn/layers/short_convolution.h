#pragma once

#include <linnet/nn/module.h>

namespace linnet::nn {

/// h + conv(h): the sum of h and a depthwise convolution over the tokens, so that a token's query, key and value also
/// contain some neighbours. This layer is linnet's own, after recent models with linear attention. The parameter
/// `weight` [channels, taps] starts as U(−1/√taps, 1/√taps).
class ShortConvolution : public Module {
 public:
  /// Throws: ValueError for sizes below 1.
  ShortConvolution(Module& parent, std::string name, int64_t channels, int64_t taps, bool causal);

  /// The sequence form; see short_conv.
  ///
  /// Shapes: h [B, N, channels] → [B, N, channels]; `padding_mask` as in Attention.
  Tensor operator()(const Tensor& h, const Tensor& padding_mask = {}, Where where = {}) const;

  /// The last tokens, at most taps − 1: [B, tokens, channels].
  struct State {
    Tensor past;  ///< undefined before the first token
  };
  /// The step form of a causal convolution: the next token.
  ///
  /// Shapes: h [B, 1, channels] → [B, 1, channels].
  Tensor step(State& state, const Tensor& h, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  int64_t taps_;
  bool causal_;
  Tensor weight_;
};

}  // namespace linnet::nn
