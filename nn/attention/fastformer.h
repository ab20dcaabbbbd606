#pragma once

#include <deque>
#include <optional>
#include <vector>

#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/layers/linear.h>
#include <linnet/nn/layers/short_convolution.h>
#include <linnet/ops/fastformer/fastformer.h>

namespace linnet::nn {

/// Options that only Fastformer has.
struct FastformerConfig {
  Interaction interaction = Interaction::product;  ///< how queries, keys and values are combined
  bool share_query_value = true;                   ///< the first and the last projection share their linear map
  bool share_heads = false;                        ///< all heads share one set of small linear maps
  bool full_logits = false;                        ///< logits from all C numbers of a token, as in the authors' code
  int64_t projections = 3;                         ///< of each token: queries, keys and values, or any number ≥ 2
};

/// Fastformer's additive attention, and linnet's causal form of it, in which every token uses the sums over its
/// prefix.
///
/// Submodules are the projections' linear maps `query`, `key` and `value` (`projection1`, `projection2`, … unless
/// there are three), the short convolutions `<projection>_conv`, if any, and `out`. There is no `value` if values
/// share the map `query`.
///
/// Parameters are the logits' weights `w_q` and `w_k` (`w1`, `w2`, … unless there are three projections). Full logits
/// have a `<weight>_bias`. Interaction::concat has a `<weight>_projection`, which is AdditiveStage::concat_weight.
/// With shared queries and values and no biases there are 3·C² + 2·C numbers. The paper's section 3.2 writes 3·h·d² +
/// 2·h·d, because it counts each head's maps as d×d.
///
/// The attention maps are "α" and "β" (eqs. 3 and 5), or "1", "2", … unless there are three projections.
///
/// The paper has no cross-attention; this is linnet's. A token's global query q sums the queries of its prefix,
/// β_n = softmax_n(w_k·(q ∘ k_n)/√D) over the keys of memory, and u = q ∘ Σ β_n k_n ∘ v with the token's own value v.
/// It needs three projections, logits per head and Interaction::product, and takes time O(N·M·C).
///
/// Shapes: `w_q`, `w_k` [H, D], or [H, C] when full; `<weight>_bias` [H]; `<weight>_projection` [H, 2·D, D]. With
/// shared heads, H is 1 in these shapes, and linear maps are [D, D]. Attention maps are [B, H, 1, N], or [B, H, N, N]
/// when causal.
/// Cost: time and memory O(N·C) without the linear maps. The step form's state is one softmax sum for each stage and
/// head, in two parts, whose size does not grow with the text.
/// Source: Wu et al. 2021.
class FastformerAttention : public Attention {
 public:
  FastformerAttention(Module& parent, std::string name, const AttentionConfig& config);

  std::vector<Setting> settings() const override;

 private:
  struct Projection {
    std::optional<Linear> map;
    std::optional<ShortConvolution> conv;
  };

  /// The first projection before it is split into heads, [B, N, C], and all projections by head, [B, H, N, D]. Both
  /// are taken after any convolution.
  struct Projections {
    Tensor query;
    std::vector<Tensor> by_head;
  };

  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override;
  std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override;
  std::unique_ptr<AttentionState> start_state() const override;
  Tensor forward_step(AttentionState& state, const Tensor& x) const override;
  Tensor forward_cross(const Tensor& x, const Tensor& memory, const Tensor& padding_mask,
                       const Tensor& memory_mask) const override;
  std::unique_ptr<AttentionState> start_cross(const Tensor& memory, const Tensor& memory_mask) const override;
  Tensor forward_cross_step(AttentionState& state, const Tensor& x) const override;
  /// Throws: ValueError for options that cross-attention does not take.
  void check_cross() const;
  /// Computes u from the global queries [B, H, N, D], the values of x and the keys of memory.
  Tensor attend_to(const Tensor& keys, const Tensor& memory_mask, const Tensor& global_queries, const Tensor& values,
                   double dropout) const;

  void add_projection(const std::string& projection_name, bool has_map);
  void add_stage(const std::string& weight_name);
  Projections project(const Tensor& x, const Tensor& padding_mask) const;
  AdditiveAttentionOptions call_options(const Tensor& padding_mask) const;
  /// The projections of tokens x [B, N, C], before any convolution.
  std::vector<Tensor> linear_projections(const Tensor& x) const;
  /// The parameters of the stages, one row for each head.
  std::vector<AdditiveStage> stages() const;

  FastformerConfig options_;
  std::deque<Projection> projections_;
  std::vector<AdditiveStage> stages_;  // as registered: one row for all heads when heads are shared
  std::optional<Linear> out_;
};

Mechanism fastformer_mechanism();  ///< the description of "fastformer"

}  // namespace linnet::nn
