#pragma once

#include <optional>

#include <linnet/nn/attention.h>
#include <linnet/nn/linear.h>

namespace linnet::nn {

/// Fastformer's additive attention (Wu et al. 2021), and our causal form of it, where every token uses the
/// sums over its own prefix. Parts: `query`, `key`, `value` (absent while it is shared with `query`) and
/// `out`, with parameters `w_q` and `w_k` [H, D]. Its step form keeps two running softmax sums per head.
class FastformerAttention : public Attention {
 public:
  FastformerAttention(Module& parent, std::string name, const AttentionConfig& config);

 private:
  Tensor forward(const Tensor& x, const Tensor& keep) const override;
  std::unique_ptr<AttentionState> start_state() const override;
  Tensor forward_step(AttentionState& state, const Tensor& x) const override;

  Linear query_, key_;
  std::optional<Linear> value_;
  Linear out_;
  Tensor w_q_, w_k_;
};

}  // namespace linnet::nn
