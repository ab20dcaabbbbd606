#pragma once

#include <optional>

#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/layers/feature_sums.h>
#include <linnet/ops/fastmax/fastmax.h>

namespace linnet::nn {

/// Options that only Fastmax has. FastmaxOptions describes them.
struct FastmaxConfig {
  std::variant<FastmaxScale, double> scale = FastmaxScale::automatic;  ///< as FastmaxOptions::scale
  FastmaxForm form = FastmaxForm::automatic;                           ///< as FastmaxOptions::form
  std::optional<FastmaxDropout> dropout_kind = {};  ///< by default quadratic, or standard for fastmax1
  FastmaxNormaliser dropout_normaliser = FastmaxNormaliser::clean;  ///< as FastmaxOptions::dropout_normaliser
};

/// Multi-head Fastmax of order 1 or 2, as `config.mechanism` says. Its submodules are `qkv`, one projection for
/// queries, keys and values, and `out`. Its one attention map holds the weights of eq. 7. Order 1 has no quadratic
/// features, so by default its dropout drops features of all orders.
///
/// Cost: as fastmax. The step form keeps S = Σ φ(k̂)·[v, 1]ᵀ for each head, whose size does not grow with the text.
/// Source: Gerami et al. 2024, eqs. 5–12.
class FastmaxAttention : public QkvAttention {
 public:
  FastmaxAttention(Module& parent, std::string name, const AttentionConfig& config);

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

  void check_options() const;
  FastmaxOptions call_options(const Tensor& padding_mask = {}) const;
  /// Queries, keys and values of tokens x [B, N, C], the first two standardised and rotated when positions are
  /// rotary.
  Qkv project(const Tensor& x, const Tensor& padding_mask) const;
  /// q̂ or k̂ of x, whose first token has the position `start`.
  Tensor standardised(const Tensor& x, int64_t start) const;
  /// The packed features φ(x).
  Tensor features(const Tensor& x) const;
  /// φ of queries whose first token has the position `start`, times the scale and the coefficients.
  Tensor query_features(const Tensor& q, int64_t start) const;

  int order_;
  FastmaxConfig options_;
  double scale_;
  Tensor first_, second_;  // the pairs a ≤ b of the features x_a·x_b, int64
  Tensor coefficients_;    // of the features; they multiply those of the queries
};

/// The state of a step form that keeps sums of features.
struct FeatureSumsState : AttentionState {
  FeatureSums sums;              ///< of keys and values so far
  ShortConvolution::State conv;  ///< the last tokens before the short convolution

 protected:
  void visit(const Visitor& visitor) override {
    for (Tensor* tensor : sums.tensors()) visitor(*tensor, of_memory());
    visitor(conv.past, false);
  }
};

/// Adds the keys and values of cross-attention's memory to sums of features, piece by piece. It calls `add` with a
/// piece of k and of v [B, H, T, D], and with `hidden`, bool [B, 1, T, 1], which is true for padding; undefined
/// without a mask. If a whole memory is padding, its values are 0 and `hidden` is false, so that its outputs are 0.
void for_pieces_of_memory(const Tensor& k, const Tensor& v, const Tensor& memory_mask,
                          const std::function<void(const Tensor& k, const Tensor& v, const Tensor& hidden)>& add);

// ---- The option `dropout_kind` of mechanisms that can only drop whole queries and keys. The struct of their options
// has a member `FastmaxDropout dropout_kind` ----

/// The words of `dropout_kind`.
inline OptionWords<FastmaxDropout> token_dropout_words() {
  return {{"token", FastmaxDropout::token},
          {"standard", FastmaxDropout::standard},
          {"quadratic", FastmaxDropout::quadratic}};
}

/// The option `dropout_kind`. `help` says what is dropped.
template <class Config>
AttentionOption token_dropout_option(const std::string& help) {
  AttentionOption kind = word_option("dropout_kind", help, &Config::dropout_kind, token_dropout_words());
  kind.of_dropout = true;
  return kind;
}

/// A Mechanism::refusal of dropout of single features.
template <class Config>
std::optional<OptionRefusal> refuse_feature_dropout(const AttentionConfig& config) {
  if (options_of<Config>(config).dropout_kind == FastmaxDropout::token) return std::nullopt;
  return OptionRefusal{"dropout_kind", "which drops whole queries and keys alone; use token"};
}

Mechanism fastmax1_mechanism();  ///< the description of "fastmax1"
Mechanism fastmax2_mechanism();  ///< the description of "fastmax2"

}  // namespace linnet::nn
