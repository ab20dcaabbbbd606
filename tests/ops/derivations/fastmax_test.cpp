#include <doctest/doctest.h>

#include <linnet/ops/array/arrange.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/attention/linear_attention.h>

#include "tests/ops/derivations/fastmax_parts.h"

// The numbers are those of the steps in ops/fastmax/fastmax_gradient.md.

using namespace linnet;
using namespace linnet::test;

namespace {

/// Calls `f(parts)` for both orders, causal and not.
template <class F>
void for_each_case(F f) {
  for (const Polynomial& polynomial : kPolynomials) {
    for (const bool causal : {false, true}) {
      CAPTURE(polynomial.a2);
      CAPTURE(causal);
      f(FastmaxParts(polynomial, causal));
    }
  }
}

/// y [B, H, N, D] and t [B, H, N, 1] of step (1), and u = [y, t].
struct Cotangents {
  Tensor y, t;
  Cotangents(const FastmaxParts& in, const Tensor& o, const Tensor& g)
      : y(in.d_o / g), t(neg(sum(in.d_o * o, {-1}, true)) / g) {}
  Tensor u() const { return concat({y, t}, 3); }
};

/// Σ G·F/g, for [F, g] [B, H, N, D + 1].
Tensor loss_of_sums(const FastmaxParts& in, const Tensor& sums) {
  return loss_of(sums.narrow(3, 0, FastmaxParts::kWidth) / sums.narrow(3, FastmaxParts::kWidth, 1), in.d_o);
}

}  // namespace

TEST_CASE("derivations: the gradient of Fastmax, weight by weight") {
  for_each_case([](const FastmaxParts& in) {
    const Tensor weights = in.weights(in.s), g = sum(weights, {-1}, true), numerators = matmul(weights, in.v);
    const Tensor o = numerators / g;
    const Cotangents c(in, o, g);
    check_step("(1) of F", c.y, tape_gradient(numerators, [&](const Tensor& x) { return loss_of(x / g, in.d_o); }));
    check_step("(1) of g", c.t, tape_gradient(g, [&](const Tensor& x) { return loss_of(numerators / x, in.d_o); }));

    const Tensor dweights = (matmul(c.y, transpose(in.v)) + c.t) * in.seen;
    check_step("(2)", dweights,
               in.seen * tape_gradient(weights, [&](const Tensor& x) { return loss_of(in.output(x), in.d_o); }));
    const Tensor delta = sum(in.d_o * o, {-1}, true);
    check_step("(2), with delta", in.seen * (matmul(in.d_o, transpose(in.v)) - delta) / g, dweights);
    const Tensor ds = in.f.slope(in.s) * (matmul(c.y, transpose(in.v)) + c.t) * in.seen;
    check_step("(3)", ds,
               tape_gradient(in.s, [&](const Tensor& x) { return loss_of(in.output(in.weights(x)), in.d_o); }));
    const Tensor dv = matmul(transpose(weights), c.y);
    const Tensor dq_hat = matmul(ds, in.k_hat), dk_hat = matmul(transpose(ds), in.q_hat);
    check_step("(5) of q", dq_hat, tape_gradient(in.q_hat, [&](const Tensor& x) {
                 return loss_of(in.output(in.weights(matmul(x, transpose(in.k_hat)))), in.d_o);
               }));
    check_step("(5) of k", dk_hat, tape_gradient(in.k_hat, [&](const Tensor& x) {
                 return loss_of(in.output(in.weights(matmul(in.q_hat, transpose(x)))), in.d_o);
               }));

    const std::vector<Tensor> fused = in.fused_gradients({.form = FastmaxForm::quadratic});
    check_step("(4)", dv, fused[2]);
    check_step("(6) of q", standardised_gradient(dq_hat, in.q), fused[0]);
    check_step("(6) of k", standardised_gradient(dk_hat, in.k), fused[1]);
    CHECK(max(abs(mean(dq_hat, {-1}))).item<double>() < 1e-14);
    CHECK(max(abs(mean(dk_hat, {-1}))).item<double>() < 1e-14);
  });
}

TEST_CASE("derivations: the gradient of Fastmax, by features") {
  for_each_case([](const FastmaxParts& in) {
    const bool second_order = in.f.a2 != 0;
    const Tensor weights = in.weights(in.s), v1 = with_ones(in.v, false);
    check_step("(7)", einsum("p,bhip,bhjp->bhij", {in.w, in.q_phi, in.k_phi}), in.f(in.s));

    const Tensor state = in.sums_over_keys(in.k_phi, v1), sums = in.apply(state, in.q_phi);
    check_step("(8)", sums, matmul(weights, v1));
    const Tensor g = sums.narrow(3, FastmaxParts::kWidth, 1), o = sums.narrow(3, 0, FastmaxParts::kWidth) / g;
    const Tensor u = Cotangents(in, o, g).u();

    const Tensor dq_phi = in.apply_to_cotangents(state, u);
    check_step("(9)", dq_phi,
               tape_gradient(in.q_phi, [&](const Tensor& x) { return loss_of_sums(in, in.apply(state, x)); }));
    const Tensor terms = einsum("bhnp,bhnd->bhnpd", in.k_phi, v1), r = in.sums_over_queries(in.q_phi, u);
    check_step("(10)", in.w.reshape({-1, 1}) * r, tape_gradient(terms, [&](const Tensor& x) {
                 return loss_of_sums(in, in.apply(einsum("in,bhnpd->bhipd", in.seen, x), in.q_phi));
               }));
    const Tensor dk_phi = in.apply_to_cotangents(r, v1);
    check_step("(11) of k", dk_phi, tape_gradient(in.k_phi, [&](const Tensor& x) {
                 return loss_of_sums(in, in.apply(in.sums_over_keys(x, v1), in.q_phi));
               }));
    const Tensor dv = in.apply(r, in.k_phi).narrow(3, 0, FastmaxParts::kWidth);

    const auto gradient_of_hat = [&](const Tensor& dphi, const Tensor& x_hat) {
      return gradient_of_augmented(dphi, with_ones(x_hat, true), second_order).narrow(3, 1, FastmaxParts::kWidth);
    };
    const Tensor dq_hat = gradient_of_hat(dq_phi, in.q_hat), dk_hat = gradient_of_hat(dk_phi, in.k_hat);
    check_step(second_order ? "(12)" : "(13)", dq_hat, tape_gradient(in.q_hat, [&](const Tensor& x) {
                 return loss_of_sums(in, in.apply(state, features_of(with_ones(x, true), second_order)));
               }));
    const std::vector<Tensor> fused = in.fused_gradients({.form = FastmaxForm::factorised});
    check_step("(12) of q", standardised_gradient(dq_hat, in.q), fused[0]);
    check_step("(12) of k", standardised_gradient(dk_hat, in.k), fused[1]);
    check_step("(11) of v", dv, fused[2]);
  });
}

TEST_CASE("derivations: the sums of causal Fastmax, token by token and chunk by chunk") {
  for (const Polynomial& polynomial : kPolynomials) {
    const FastmaxParts in(polynomial, true);
    const Tensor v1 = with_ones(in.v, false), state = in.sums_over_keys(in.k_phi, v1);
    const int64_t offset = FastmaxParts::kKeys - FastmaxParts::kQueries;
    const Tensor terms = einsum("bhnp,bhnd->bhnpd", in.k_phi, v1);
    check_step("(14) of S", cumsum(terms, 2).narrow(2, offset, FastmaxParts::kQueries), state);
    const Tensor u = uniform({1, 2, FastmaxParts::kQueries, FastmaxParts::kWidth + 1}, 9);
    const Tensor backwards = flip(cumsum(flip(einsum("bhip,bhid->bhipd", in.q_phi, u), {2}), 2), {2});
    check_step("(14) of R", backwards, in.sums_over_queries(in.q_phi, u).narrow(2, offset, FastmaxParts::kQueries));

    // Chunks of 16 positions; query i is at position i + offset.
    const Tensor i = arange(FastmaxParts::kQueries).reshape({-1, 1}),
                 j = arange(FastmaxParts::kKeys).reshape({1, -1});
    const Tensor chunk = i + offset - remainder(i + offset, 16);
    const Tensor before = lt(j, chunk).to(DType::float64), own = in.seen - before;
    const Tensor state_before = einsum("in,bhnpd->bhipd", before, terms);
    check_step("(15)", in.apply(state_before, in.q_phi) + matmul(in.f(in.s) * own, v1), in.apply(state, in.q_phi));
  }
}

TEST_CASE("derivations: the gradient of linear attention's queries") {
  for (const bool causal : {false, true}) {
    CAPTURE(causal);
    const FastmaxParts in({0, 1, 0}, causal);
    const Tensor psi = linear_attention_features(in.q), k_psi = linear_attention_features(in.k);
    const Tensor sigma = sum(psi, {-1}, true), q_hat = psi / sigma;
    const auto loss = [&](const Tensor& x) {
      return loss_of(in.output(in.weights(matmul(x, transpose(k_psi)))), in.d_o);
    };
    const Tensor dq_hat = tape_gradient(q_hat, loss);
    CHECK(max(abs(sum(dq_hat * q_hat, {-1}))).item<double>() < 1e-14);
    const Tensor dq = dq_hat * minimum(psi, 1) / sigma;
    check_step("(19), by the tape", dq, tape_gradient(in.q, [&](const Tensor& q) {
                 const Tensor features = linear_attention_features(q);
                 return loss(features / sum(features, {-1}, true));
               }));
    for (const FastmaxForm form : {FastmaxForm::quadratic, FastmaxForm::factorised}) {
      check_step("(19)", dq, tape_gradient(in.q, [&](const Tensor& q) {
                   return loss_of(linear_attention(q, in.k, in.v, {.causal = causal, .form = form}), in.d_o);
                 }));
    }
  }
}
