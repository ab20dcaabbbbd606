#pragma once

#include <concepts>
#include <vector>

#include <linnet/core/refused.h>
#include <linnet/nn/optim/optim.h>

namespace linnet::nn {

/// The factor of Muon's learning rate for a matrix [A, B], as in PyTorch.
enum class MuonLr : uint8_t {
  original,            ///< √max(1, A/B): Jordan et al. 2024
  match_rms_adamw,     ///< 0.2·√max(A, B), for AdamW's rates: Liu et al. 2025
  spectral_unclamped,  ///< √(A/B): Bernstein 2025, Deriving Muon
};

/// Options of Muon, as in PyTorch.
struct MuonConfig {
  double lr = 1e-3;                            ///< the learning rate
  double weight_decay = 0.1;                   ///< decoupled from the gradient: p ← p − lr·weight_decay·p
  double momentum = 0.95;                      ///< μ
  bool nesterov = true;                        ///< Nesterov's momentum
  double a = 3.4445, b = -4.7750, c = 2.0315;  ///< the coefficients of a Newton–Schulz step
  double eps = 1e-7;                           ///< the least norm that a matrix is divided by
  int64_t ns_steps = 5;                        ///< Newton–Schulz steps
  MuonLr adjust_lr = MuonLr::original;         ///< how the rate depends on the shape
};

/// m ← μ·m + (1 − μ)·g, p ← p − lr·O. O approximates the orthogonal matrix that is nearest to m, or with Nesterov's
/// momentum to μ·m + (1 − μ)·g. It starts from X = m/‖m‖, transposed if m has more rows than columns. The steps
/// X ← a·X + (b·A + c·A²)·X with A = X·Xᵀ bring all singular values to about 1.
///
///     std::vector<Tensor> matrices, others;
///     for (const auto& [name, p] : model.named_parameters()) {
///       (p.rank() == 2 && name.starts_with("blocks.") ? matrices : others).push_back(p);
///     }
///     nn::Muon muon(matrices, {.lr = 0.02});
///     nn::AdamW adamw(others, {.lr = 3e-4});
///
/// Dtypes: the matrix products use the parameter's dtype; PyTorch's use bfloat16.
/// Cost: one number of state for each number of a parameter; for a matrix [A, B] with A ≤ B,
/// ns_steps·(4·A²·B + 2·A³) operations. The host reads `StepOptions::apply`, so a step with it cannot be in a
/// Recording.
/// Source: Jordan et al. 2024, Muon: an optimizer for hidden layers in neural networks.
class Muon : public Optimizer {
 public:
  /// One group of all parameters, or several groups.
  ///
  /// Shapes: matrices. Give embeddings, gains and biases to another optimizer.
  /// Dtypes: float32 or float64.
  /// Throws: as Adam; ShapeError for a parameter that is not a matrix; ValueError for ns_steps outside 0 … 99.
  explicit Muon(std::vector<Tensor> parameters, const MuonConfig& config = {});
  explicit Muon(std::vector<ParameterGroup> groups, const MuonConfig& config = {});
  template <std::convertible_to<double> Rate>
  Muon(const std::vector<Tensor>& parameters, Rate) : Muon(parameters) {
    static_assert(detail::refused<Rate>, "options go in braces: write nn::Muon muon(parameters, {.lr = 1e-3})");
  }

  /// As SGD::set_momentum, but from any momentum, 0 too.
  void set_momentum(double momentum);
  double momentum() const { return config_.momentum; }  ///< the present value

 private:
  void update(const std::vector<Update>& updates) override;
  std::string moment_name(size_t) const override { return "momentum_buffer"; }
  /// O of `m`.
  Tensor orthogonalised(const Tensor& m) const;
  MuonConfig config_;
};

}  // namespace linnet::nn
