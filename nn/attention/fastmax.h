#pragma once

#include <optional>

#include <linnet/nn/attention/mechanism.h>
#include <linnet/nn/layers/heads.h>
#include <linnet/nn/layers/linear.h>
#include <linnet/nn/layers/short_convolution.h>
#include <linnet/ops/fastmax/fastmax.h>

namespace linnet::nn {

/// What only Fastmax has: see FastmaxOptions.
struct FastmaxConfig {
  std::variant<FastmaxScale, double> scale = FastmaxScale::automatic;
  FastmaxForm form = FastmaxForm::automatic;
  std::optional<FastmaxDropout> dropout_kind = {};  ///< unless given, quadratic, and standard of fastmax1
  FastmaxNormaliser dropout_normaliser = FastmaxNormaliser::clean;
};

/// Multi-head Fastmax (Gerami et al. 2024, eqs. 5–12) of order 1 or 2, as `config.mechanism` says. Parts:
/// `qkv`, one projection for queries, keys and values, and `out`. Its step form keeps S = Σ φ(k̂)·[v, 1]ᵀ per
/// head, of a size that does not grow with the text. One map, eq. 7. Order 1 has no quadratic features: what it drops
/// unless told otherwise are those of all orders.
class FastmaxAttention : public Attention {
 public:
  FastmaxAttention(Module& parent, std::string name, const AttentionConfig& config);

  std::vector<Setting> settings() const override;

 private:
  Tensor forward(const Tensor& x, const Tensor& padding_mask) const override;
  std::vector<AttentionMap> forward_maps(const Tensor& x, const Tensor& padding_mask) const override;
  std::unique_ptr<AttentionState> start_state() const override;
  Tensor forward_step(AttentionState& state, const Tensor& x) const override;

  void check_options() const;
  FastmaxOptions call_options(const Tensor& padding_mask = {}) const;
  /// Queries, keys and values of tokens x [B, N, C], the first two standardised and rotated when positions are
  /// rotary.
  Qkv project(const Tensor& x, const Tensor& padding_mask) const;
  /// q̂, k̂ or their packed features φ; see the definitions.
  Tensor standardised(const Tensor& x, int64_t start) const;
  Tensor features(const Tensor& x) const;

  int order_;
  FastmaxConfig options_;
  double scale_;
  Linear qkv_, out_;
  std::optional<ShortConvolution> conv_;
  Tensor first_, second_;  // the pairs a ≤ b of the features x_a·x_b, int64
  Tensor coefficients_;    // of the features, on the side of the queries
};

Mechanism fastmax1_mechanism();
Mechanism fastmax2_mechanism();

}  // namespace linnet::nn
