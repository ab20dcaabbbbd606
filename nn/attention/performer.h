#pragma once

#include <optional>

#include <linnet/nn/attention/fastmax.h>
#include <linnet/nn/attention/mechanism.h>
#include <linnet/ops/attention/performer_attention.h>
#include <linnet/ops/fastmax/fastmax.h>

namespace linnet::nn {

/// Options that only performer has.
struct PerformerConfig {
  std::optional<int64_t> features = {};  ///< m; by default performer_features(D)
  int64_t redraw = 1000;                 ///< steps of training after which Ω is drawn anew; 0 for never
  FastmaxDropout dropout_kind = FastmaxDropout::token;  ///< token drops whole queries and keys; others are refused
};

/// Multi-head FAVOR+ attention: an estimate of softmax attention by positive random features. Its submodules are
/// `qkv`, one projection for queries, keys and values, `conv`, if it has a short convolution, and `out`. The random
/// matrix Ω of all heads is the buffer `omega` [m, D]. Its one attention map holds the weights φ(q_i)·φ(k_j), divided
/// by their sum over the keys.
///
/// Ω is drawn anew in begin_step, in training, if the number of the step is a multiple of `redraw` and not 0. So it
/// does not change between forward and backward, or between the micro-batches of a step. If begin_step is not called,
/// Ω never changes.
///
/// Cost: time O(N·C·m) and memory O(N·C). The step form keeps S = Σ φ(k)·[v, 1]ᵀ and the largest exponent of each
/// feature for each head, whose size does not grow with the text.
/// Source: Choromanski et al. 2021, lemma 1 and section 2.4.
class PerformerAttention : public QkvAttention {
 public:
  PerformerAttention(Module& parent, std::string name, const AttentionConfig& config);

  std::vector<Setting> settings() const override;

 private:
  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override;
  std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override;
  std::unique_ptr<AttentionState> start_state() const override;
  Tensor forward_step(AttentionState& state, const Tensor& x) const override;
  Tensor forward_cross(const Tensor& x, const Tensor& memory, const Tensor& padding_mask,
                       const Tensor& memory_mask) const override;
  std::unique_ptr<AttentionState> start_cross(const Tensor& memory, const Tensor& memory_mask) const override;
  Tensor forward_cross_step(AttentionState& state, const Tensor& x) const override;
  void on_step(int64_t step) override;

  Tensor draw() const;

  PerformerConfig options_;
  Tensor omega_;
};

Mechanism performer_mechanism();  ///< the description of "performer"

}  // namespace linnet::nn
