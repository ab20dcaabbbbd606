#pragma once

#include <vector>

#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/fastmax/fastmax.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/derivations/derivation.h"

/// The quantities of ops/fastmax/fastmax_gradient.md, under its names. Their shapes begin with B and H: [B, H, …].

namespace linnet::test {

/// f(s) = a0 + a1 s + a2 s²
struct Polynomial {
  double a0, a1, a2;

  Tensor operator()(const Tensor& s) const { return a0 + s * (a1 + a2 * s); }
  Tensor slope(const Tensor& s) const { return a1 + 2 * a2 * s; }

  /// w [P], in the order of `features`.
  Tensor feature_weights(int64_t width) const {
    std::vector<double> w{a0};
    for (int64_t b = 1; b <= width; ++b) w.push_back(a1);
    for (int64_t a = 1; a <= width && a2 != 0; ++a) {
      for (int64_t b = a; b <= width; ++b) w.push_back(a == b ? a2 : 2 * a2);
    }
    return tensor(w);
  }
};

inline Tensor with_ones(const Tensor& x, bool first) {
  Shape shape = x.shape();
  shape[3] = 1;
  const Tensor one = ones(shape, DType::float64);
  return first ? concat({one, x}, 3) : concat({x, one}, 3);
}

/// φ [B, H, N, P] of x̃ = [1; x] [B, H, N, D + 1]: its products x̃_a·x̃_b for a ≤ b, with `second_order`, or x̃ itself.
inline Tensor features_of(const Tensor& augmented, bool second_order) {
  if (!second_order) return augmented;
  std::vector<Tensor> products;
  for (int64_t a = 0; a < augmented.size(3); ++a) {
    for (int64_t b = a; b < augmented.size(3); ++b) {
      products.push_back(augmented.select(3, a) * augmented.select(3, b));
    }
  }
  return stack(products, 3);
}

/// ∂x̃ from ∂φ, step (12).
inline Tensor gradient_of_augmented(const Tensor& dphi, const Tensor& augmented, bool second_order) {
  if (!second_order) return dphi;
  std::vector<Tensor> sums;
  for (int64_t a = 0; a < augmented.size(3); ++a) sums.push_back(zeros_like(augmented.select(3, 0)));
  int64_t i = 0;
  for (size_t a = 0; a < sums.size(); ++a) {
    for (size_t b = a; b < sums.size(); ++b, ++i) {
      const Tensor c = dphi.select(3, i);
      const Tensor x_a = augmented.select(3, static_cast<int64_t>(a)),
                   x_b = augmented.select(3, static_cast<int64_t>(b));
      if (a == b) {
        sums[a] = sums[a] + 2 * c * x_a;
      } else {
        sums[a] = sums[a] + c * x_b;
        sums[b] = sums[b] + c * x_a;
      }
    }
  }
  return stack(sums, 3);
}

/// Eqs. 5 and 6.
inline Tensor standardised(const Tensor& x) {
  const Tensor centred = x - mean(x, {-1}, true);
  return centred * rsqrt(mean(square(centred), {-1}, true) + 1e-5);
}

/// ∂x from ∂x̂, step (6).
inline Tensor standardised_gradient(const Tensor& dx_hat, const Tensor& x) {
  const Tensor x_hat = standardised(x), rho = rsqrt(var(x, {-1}, 0, true) + 1e-5);
  return rho * (dx_hat - mean(dx_hat, {-1}, true) - x_hat * mean(dx_hat * x_hat, {-1}, true));
}

/// All quantities for one set of inputs. `seen` [N, M] is 1 where a query sees a key, and 0 elsewhere.
struct FastmaxParts {
  static constexpr int64_t kQueries = 70, kKeys = 75, kWidth = 3;

  Polynomial f;
  bool causal;
  Tensor q = uniform({1, 2, kQueries, kWidth}, 1), k = uniform({1, 2, kKeys, kWidth}, 2);
  Tensor v = uniform({1, 2, kKeys, kWidth}, 3), d_o = uniform({1, 2, kQueries, kWidth}, 4);
  Tensor seen, q_hat, k_hat, q_phi, k_phi, s, w;

  FastmaxParts(const Polynomial& f_, bool causal_) : f(f_), causal(causal_) {
    const Tensor i = arange(kQueries).reshape({-1, 1}), j = arange(kKeys).reshape({1, -1});
    seen = le(j, causal ? i + (kKeys - kQueries) : i + kKeys).to(DType::float64);
    q_hat = standardised(q);
    k_hat = standardised(k);
    q_phi = features_of(with_ones(q_hat, true), f.a2 != 0);
    k_phi = features_of(with_ones(k_hat, true), f.a2 != 0);
    s = matmul(q_hat, transpose(k_hat));
    w = f.feature_weights(kWidth);
  }

  /// f(s_ij), 0 where a key is not seen.
  Tensor weights(const Tensor& scores) const { return f(scores) * seen; }
  /// o = F / g of weights.
  Tensor output(const Tensor& weights) const { return matmul(weights, v) / sum(weights, {-1}, true); }
  /// Σ over the keys n that query i sees, or over the queries i that see key n, of a_n b_nᵀ: [B, H, N or M, P, D'].
  Tensor sums_over_keys(const Tensor& a, const Tensor& b) const {
    return einsum("in,bhnp,bhnd->bhipd", {seen, a, b});
  }
  Tensor sums_over_queries(const Tensor& a, const Tensor& b) const {
    return einsum("in,bhip,bhid->bhnpd", {seen, a, b});
  }
  /// (w∘S)ᵀ φ, and (w∘S) u.
  Tensor apply(const Tensor& state, const Tensor& phi) const { return einsum("p,bhipd,bhip->bhid", {w, state, phi}); }
  Tensor apply_to_cotangents(const Tensor& state, const Tensor& u) const {
    return einsum("p,bhipd,bhid->bhip", {w, state, u});
  }

  /// Gradients of q, k and v by the fused op.
  std::vector<Tensor> fused_gradients(FastmaxOptions options) const {
    options.coefficients = {{f.a0, f.a1, f.a2}};
    options.scale = 1.0;
    options.causal = causal;
    const std::vector<Tensor> leaves{q.detach().set_requires_grad(), k.detach().set_requires_grad(),
                                     v.detach().set_requires_grad()};
    return grad({loss_of(fastmax(leaves[0], leaves[1], leaves[2], options), d_o)}, leaves);
  }
};

/// Second and first order, positive for |s| ≤ D.
inline const std::vector<Polynomial> kPolynomials{{1.1, 0.9, 0.5}, {1.2, 0.3, 0}};

}  // namespace linnet::test
