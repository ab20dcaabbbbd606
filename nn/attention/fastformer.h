#pragma once

#include <deque>
#include <optional>
#include <vector>

#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/layers/linear.h>
#include <linnet/nn/layers/short_convolution.h>
#include <linnet/ops/fastformer/fastformer.h>

namespace linnet::nn {

/// What only Fastformer has.
struct FastformerConfig {
  Interaction interaction = Interaction::product;
  bool share_query_value = true;  ///< the first column's linear map serves as the last one's too
  bool share_heads = false;       ///< one set of small maps serves all heads
  bool full_logits = false;       ///< logits from all C numbers of a token, as in the authors' code
  int64_t columns = 3;            ///< queries, keys and values; or any number from 2
};

/// Fastformer's additive attention (Wu et al. 2021), and our causal form of it, where every token uses the sums over
/// its own prefix. Its step form keeps a running softmax sum a stage and head, in two parts, however long the text.
/// Two maps, "α" and "β" (eqs. 3 and 5; "1", "2", … with other columns than three): one row that serves all tokens,
/// [B, H, 1, N], or when causal a row for each.
///
/// Parts: the maps of the columns, `query`, `key` and `value` (`column1`, `column2`, … when there are other than
/// three), where the last is absent while it shares the first's; `<column>_conv` with a short convolution; and `out`.
/// Parameters: the weights of the logits `w_q` and `w_k` (`w1`, `w2`, …), [H, D], or with full logits [H, C] and
/// `<weight>_bias` [H]; with Interaction::concat `<weight>_projection` [H, 2·D, D], from a global vector and a
/// token's to the next column. Heads that share have 1 in place of H, and maps of D×D. With shared queries and values
/// and without biases that is 3·C² + 2·C numbers (the paper's section 3.3 writes 3·h·d² + 2·h·d, with maps of d×d a
/// head).
class FastformerAttention : public Attention {
 public:
  FastformerAttention(Module& parent, std::string name, const AttentionConfig& config);

  std::vector<Setting> settings() const override;

 private:
  struct Column {
    std::optional<Linear> map;
    std::optional<ShortConvolution> conv;
  };

  /// The first column of all heads, [B, N, C], and all columns, [B, H, N, D], after any convolution.
  struct Columns {
    Tensor query;
    std::vector<Tensor> by_head;
  };

  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override;
  std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override;
  std::unique_ptr<AttentionState> start_state() const override;
  Tensor forward_step(AttentionState& state, const Tensor& x) const override;

  void add_column(const std::string& column_name, bool has_map);
  void add_stage(const std::string& weight_name);
  Columns project(const Tensor& x, const Tensor& padding_mask) const;
  AdditiveAttentionOptions call_options(const Tensor& padding_mask) const;
  /// The columns of tokens x [B, N, C], before any convolution.
  std::vector<Tensor> map_columns(const Tensor& x) const;
  /// The parameters of the stages, one row for each head.
  std::vector<AdditiveStage> stages() const;

  FastformerConfig options_;
  std::deque<Column> columns_;
  std::vector<AdditiveStage> stages_;  // as registered: one row for all heads when they share
  std::optional<Linear> out_;
};

Mechanism fastformer_mechanism();

}  // namespace linnet::nn
