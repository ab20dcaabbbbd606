#pragma once

#include <linnet/nn/layers/linear.h>

namespace linnet::nn {

/// Additive attention pooling: one vector for a sequence, Σ_i α_i x_i with α = softmax_i(w·tanh(W x_i + b)).
/// Submodules are `fc1` for W and b, and `fc2` for w. The bias of `fc2` cancels in the softmax. W has `hidden` rows.
///
/// The published implementation divides e^s by Σ e^s + 1e-8. There the bias does not cancel, and large scores
/// overflow. `released` computes the same function without overflow, so that the published weights give the published
/// results. It adds one more token to the softmax, with score log 1e-8 and value 0.
///
/// Source: Wu et al. 2021, section 4.1.
class AttentionPooling : public Module {
 public:
  /// A `hidden` of 0 means `width`.
  ///
  /// Throws: ValueError for a width below 1.
  AttentionPooling(Module& parent, std::string name, int64_t width, bool released = false, int64_t hidden = 0);

  /// The pooled vectors; 0 where every token is padding.
  ///
  /// Shapes: x [B, N, width], `padding_mask` [B, N] → [B, width].
  /// Dtypes: the parameters' dtype. bfloat16 is computed in float32, and the result is float32. `padding_mask` is
  /// bool, false where a token is padding.
  /// Throws: ShapeError, DTypeError.
  Tensor operator()(const Tensor& x, const Tensor& padding_mask = {}, Where where = {}) const;

  std::vector<Setting> settings() const override;

 private:
  Linear fc1_, fc2_;
  bool released_;
};

}  // namespace linnet::nn
