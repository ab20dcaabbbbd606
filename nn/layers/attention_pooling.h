#pragma once

#include <linnet/nn/layers/linear.h>

namespace linnet::nn {

/// Additive attention pooling (Wu et al. 2021, section 4.1): a sequence as one vector, Σ_i α_i x_i with
/// α = softmax_i(w·tanh(W x_i + b)). Parts: `fc1` for W and b, `fc2` for w, whose bias cancels.
///
/// The published implementation divides e^s by Σ e^s + 1e-8, which neither cancels the bias nor survives large
/// scores; as the softmax of a further token of score log 1e-8 and value 0 it is the same function, stably.
/// `released` asks for it, so that its weights give its results.
class AttentionPooling : public Module {
 public:
  AttentionPooling(Module& parent, std::string name, int64_t width, bool released = false);

  /// x [B, N, width] → [B, width]; `padding_mask` is bool [B, N], false where a token is padding. 0 where no token is
  /// left. Of bfloat16 too, in float32, which the result is then.
  Tensor operator()(const Tensor& x, const Tensor& padding_mask = {}, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  Linear fc1_, fc2_;
  bool released_;
};

}  // namespace linnet::nn
