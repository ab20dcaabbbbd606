#pragma once

#include <linnet/nn/module.h>

namespace linnet::nn {

/// h + conv(h): a depthwise convolution over the tokens, added to them, so that an attention sees some neighbours too
/// (ours, after modern linear models). Parameter `weight` [channels, taps], which starts as U(−1/√taps, 1/√taps).
class ShortConvolution : public Module {
 public:
  /// Throws ValueError for sizes below 1.
  ShortConvolution(Module& parent, std::string name, int64_t channels, int64_t taps, bool causal);

  /// The sequence form: h [B, N, channels]; `padding_mask` as in Attention. See short_conv.
  Tensor operator()(const Tensor& h, const Tensor& padding_mask = {}, Where where = {}) const;

  /// The last taps − 1 tokens, [B, up to taps − 1, channels].
  struct State {
    Tensor past;
  };
  /// The step form of a causal one: the next token, h [B, 1, channels].
  Tensor step(State& state, const Tensor& h, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  int64_t taps_;
  bool causal_;
  Tensor weight_;
};

}  // namespace linnet::nn
