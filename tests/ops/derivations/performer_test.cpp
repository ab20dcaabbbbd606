#include <linnet/ops/attention/performer_attention.h>

#include <cmath>
#include <numbers>

#include <doctest/doctest.h>

#include <linnet/ops/array/arrange.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/derivations/derivation.h"

// The numbers are those of the steps in ops/attention/performer_attention_gradient.md.

using namespace linnet;
using namespace linnet::test;

namespace {

constexpr int64_t kQueries = 67, kKeys = 131, kWidth = 5, kFeatures = 9;

/// The inputs, the cotangent G, Ω, and [N, M] with 1 where a query sees a key and 0 elsewhere.
struct PerformerCase {
  Tensor q = uniform({2, 2, kQueries, kWidth}, 1, -2, 2), k = uniform({2, 2, kKeys, kWidth}, 2, -2, 2);
  Tensor v = uniform({2, 2, kKeys, kWidth}, 3), g = uniform({2, 2, kQueries, kWidth}, 4);
  Tensor omega = uniform({kFeatures, kWidth}, 5, -2, 2), seen;

  explicit PerformerCase(bool causal) {
    const Tensor all = ones({kQueries, kKeys}, DType::float64);
    seen = causal ? tril(all, kKeys - kQueries) : all;
  }
};

Tensor power_of_two(const Tensor& x) { return exp(x * std::numbers::ln2); }

/// x'
Tensor scaled_by_width(const Tensor& x) { return x * std::pow(kWidth, -0.25); }

Tensor query_exponents(const Tensor& q, const Tensor& omega) {
  return matmul(scaled_by_width(q), transpose(omega)) * std::numbers::log2e;
}

Tensor key_exponents(const Tensor& k, const Tensor& omega) {
  const Tensor norm = sum(square(scaled_by_width(k)), {-1}, true) / 2;
  return (matmul(scaled_by_width(k), transpose(omega)) - norm) * std::numbers::log2e;
}

/// The weights ψ_i·χ_n / Σ_n ψ_i·χ_n of the keys that are seen.
Tensor weights_of_features(const Tensor& psi, const Tensor& chi, const Tensor& seen) {
  const Tensor products = matmul(psi, transpose(chi)) * seen;
  return products / sum(products, {-1}, true);
}

Tensor quotient(const Tensor& numerator_and_denominator) {
  return numerator_and_denominator.narrow(3, 0, kWidth) / numerator_and_denominator.narrow(3, kWidth, 1);
}

/// Gradients of q, k and v by the fused op.
std::vector<Tensor> fused_performer_gradients(const PerformerCase& in, bool causal) {
  const std::vector<Tensor> leaves{in.q.detach().set_requires_grad(), in.k.detach().set_requires_grad(),
                                   in.v.detach().set_requires_grad()};
  const Tensor o = performer_attention(leaves[0], leaves[1], leaves[2], in.omega, {.causal = causal});
  return grad({loss_of(o, in.g)}, leaves);
}

/// All quantities of the page, from the inputs. Each query has an S over the keys that it sees, and each key has an R
/// over the queries that see it.
struct PerformerParts {
  Tensor psi, chi, v1, s, f_and_g, o, u, r;
  Tensor most, shift;

  explicit PerformerParts(const PerformerCase& in) {
    const Tensor a = query_exponents(in.q, in.omega), b = key_exponents(in.k, in.omega);
    most = max(round(b), {2}, true);
    shift = max(round(a) + most, {3}, true);
    psi = power_of_two(a + most - shift);
    chi = power_of_two(b - most);
    v1 = concat({in.v, ones({2, 2, kKeys, 1}, DType::float64)}, 3);
    s = einsum("in,bhnr,bhnd->bhird", {in.seen, chi, v1});
    f_and_g = einsum("bhird,bhir->bhid", s, psi);
    o = quotient(f_and_g);
    u = concat({in.g, neg(sum(in.g * o, {-1}, true))}, 3) / f_and_g.narrow(3, kWidth, 1);
    r = einsum("in,bhir,bhid->bhnrd", {in.seen, psi, u});
  }
};

}  // namespace

TEST_CASE("derivations: FAVOR+, by features with shifts that cancel") {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const PerformerCase in(causal);
    const PerformerParts parts(in);
    const Tensor phi_q = exp(performer_log_features(in.q, in.omega)) / std::sqrt(kFeatures);
    const Tensor phi_k = exp(performer_log_features(in.k, in.omega)) / std::sqrt(kFeatures);
    const Tensor p = weights_of_features(phi_q, phi_k, in.seen);
    const Tensor a = query_exponents(in.q, in.omega), b = key_exponents(in.k, in.omega);
    check_step("(1)", weights_of_features(power_of_two(a), power_of_two(b), in.seen), p);
    check_step("(2)", weights_of_features(parts.psi, parts.chi, in.seen), p);
    CHECK(max(parts.psi).item<double>() <= std::numbers::sqrt2);
    CHECK(max(parts.chi).item<double>() <= std::numbers::sqrt2);
    check_step("(3)", parts.o, performer_attention(in.q, in.k, in.v, in.omega, {.causal = causal}));

    // The sums over some keys relative to their own largest exponents, and the sums over the other keys.
    const auto sums = [&](int64_t from, int64_t count, const Tensor& most) {
      const Tensor features = power_of_two(b.narrow(2, from, count) - most);
      return matmul(transpose(features), parts.v1.narrow(2, from, count));
    };
    const auto largest = [&](int64_t from, int64_t count) { return max(b.narrow(2, from, count), {2}, true); };
    const Tensor before = largest(0, 40), own = largest(40, kKeys - 40), both = maximum(before, own);
    check_step("(4)",
               transpose(power_of_two(before - both)) * sums(0, 40, before) +
                   transpose(power_of_two(own - both)) * sums(40, kKeys - 40, own),
               sums(0, kKeys, both));
  }
}

TEST_CASE("derivations: the gradient of FAVOR+") {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const PerformerCase in(causal);
    const PerformerParts at(in);
    const auto loss = [&](const Tensor& psi, const Tensor& chi, const Tensor& v1) {
      const Tensor products = matmul(psi, transpose(chi)) * in.seen;
      return loss_of(quotient(matmul(products, v1)), in.g);
    };
    check_step("(5)", at.u, tape_gradient(at.f_and_g, [&](const Tensor& x) { return loss_of(quotient(x), in.g); }));
    const Tensor dpsi = einsum("bhird,bhid->bhir", at.s, at.u);
    check_step("(6)", dpsi, tape_gradient(at.psi, [&](const Tensor& x) { return loss(x, at.chi, at.v1); }));
    const Tensor dchi = einsum("bhnrd,bhnd->bhnr", at.r, at.v1);
    check_step("(7) of the features", dchi,
               tape_gradient(at.chi, [&](const Tensor& x) { return loss(at.psi, x, at.v1); }));
    const Tensor dv1 = einsum("bhnrd,bhnr->bhnd", at.r, at.chi);
    check_step("(7) of the values", dv1,
               tape_gradient(at.v1, [&](const Tensor& x) { return loss(at.psi, at.chi, x); }));

    const Tensor a = query_exponents(in.q, in.omega), b = key_exponents(in.k, in.omega);
    const auto shifted = [&](const Tensor& most, const Tensor& shift) {
      return loss(power_of_two(a + most - shift), power_of_two(b - most), at.v1);
    };
    const Tensor by_most = tape_gradient(at.most, [&](const Tensor& x) { return shifted(x, at.shift); });
    const Tensor by_shift = tape_gradient(at.shift, [&](const Tensor& x) { return shifted(at.most, x); });
    CHECK(max(abs(by_most)).item<double>() < 1e-12);   // (8)
    CHECK(max(abs(by_shift)).item<double>() < 1e-12);  // (8)

    const Tensor gamma = at.psi * dpsi, eta = at.chi * dchi;
    check_step("(9) of queries", gamma, tape_gradient(a * std::numbers::ln2, [&](const Tensor& x) {
                 return loss(power_of_two(x * std::numbers::log2e + at.most - at.shift), at.chi, at.v1);
               }));
    check_step("(9) of keys", eta, tape_gradient(b * std::numbers::ln2, [&](const Tensor& x) {
                 return loss(at.psi, power_of_two(x * std::numbers::log2e - at.most), at.v1);
               }));

    const double quarter = std::pow(kWidth, -0.25);
    const std::vector<Tensor> fused = fused_performer_gradients(in, causal);
    check_step("(10)", quarter * matmul(gamma, in.omega), fused[0]);
    CHECK(max(abs(gamma)).item<double>() > 1e-3);
    CHECK(max(abs(sum(gamma, {-1}))).item<double>() < 1e-13);  // (11)
    const Tensor dk = quarter * matmul(eta, in.omega) - quarter * quarter * in.k * sum(eta, {-1}, true);
    check_step("(12)", dk, fused[1]);
    check_step("(7), fused", dv1.narrow(3, 0, kWidth), fused[2]);
  }
}

TEST_CASE("derivations: the causal sums of FAVOR+") {
  PerformerCase in(true);
  in.k = in.k.narrow(2, 0, kQueries), in.v = in.v.narrow(2, 0, kQueries);
  in.seen = tril(ones({kQueries, kQueries}, DType::float64));
  const Tensor a = query_exponents(in.q, in.omega), b = key_exponents(in.k, in.omega);
  const Tensor most = max(b, {2}, true), shift = max(a + most, {3}, true), lower = most - 3;
  const Tensor psi = power_of_two(a + most - shift), chi = power_of_two(b - most);
  const Tensor v1 = concat({in.v, ones({2, 2, kQueries, 1}, DType::float64)}, 3);
  const Tensor u = uniform({2, 2, kQueries, kWidth + 1}, 6);

  const Tensor s = cumsum(einsum("bhnr,bhnd->bhnrd", chi, v1), 2);
  check_step("(13) of keys", s, einsum("in,bhnr,bhnd->bhird", {in.seen, chi, v1}));
  const auto sums_back = [&](const Tensor& features) {
    return flip(cumsum(flip(einsum("bhnr,bhnd->bhnrd", features, u), {2}), 2), {2});
  };
  const Tensor r = sums_back(psi);
  check_step("(13) of queries", r, einsum("in,bhir,bhid->bhnrd", {in.seen, psi, u}));
  check_step("(14)", power_of_two(lower - most).unsqueeze(-1) * r, sums_back(power_of_two(a + lower - shift)));
}
