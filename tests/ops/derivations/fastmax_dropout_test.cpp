#include <doctest/doctest.h>

#include <cmath>

#include <linnet/core/device/backend.h>
#include <linnet/core/random/philox.h>

#include "tests/ops/derivations/fastmax_parts.h"

// The numbers are those of the steps in ops/fastmax/fastmax_gradient.md.

using namespace linnet;
using namespace linnet::test;

namespace {

constexpr double kRate = 0.0625;
constexpr int kKeepOf256 = 240;
constexpr int64_t kTile = 64;

/// Dropout's factors of tokens that begin at position `first`, [1, 2, tokens, features]: a random byte each. The
/// bytes of 64 positions lie together, feature after feature.
Tensor byte_factors(RandomKey key, int64_t first, int64_t tokens, int64_t features) {
  Tensor factors = Tensor::empty({1, 2, tokens, features}, DType::float64);
  const int64_t tiles = (FastmaxParts::kKeys + kTile - 1) / kTile;
  const std::span<double> out = factors.mutable_data<double>();
  size_t at = 0;
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t n = first; n < first + tokens; ++n) {
      for (int64_t p = 0; p < features; ++p) {
        const int64_t byte = ((head * tiles + n / kTile) * features + p) * kTile + n % kTile;
        const PhiloxBlock block = philox(key, static_cast<uint64_t>(byte / 16));
        const uint32_t value = block.word[byte % 16 / 4] >> (byte % 4 * 8) & 255;
        out[at++] = value < kKeepOf256 ? 256.0 / kKeepOf256 : 0;
      }
    }
  }
  return factors;
}

struct DropoutCase {
  FastmaxParts in;
  bool shared;
  FastmaxOptions options;
  Tensor q_factors, k_factors;

  DropoutCase(const Polynomial& f, bool causal, bool shared_, FastmaxDropout kind) : in(f, causal), shared(shared_) {
    options.dropout = kRate;
    options.dropout_kind = kind;
    options.dropout_normaliser = shared ? FastmaxNormaliser::shared : FastmaxNormaliser::clean;
    Generator twin(7);
    const RandomKey q_rng = twin.next(), k_rng = twin.next();
    const int64_t features = kind == FastmaxDropout::token ? 1 : in.w.size(0);
    const int64_t first_query = causal ? FastmaxParts::kKeys - FastmaxParts::kQueries : 0;
    q_factors = byte_factors(q_rng, first_query, FastmaxParts::kQueries, features);
    k_factors = byte_factors(k_rng, 0, FastmaxParts::kKeys, features);
    if (kind != FastmaxDropout::quadratic) return;
    for (Tensor* factors : {&q_factors, &k_factors}) factors->narrow(3, 0, FastmaxParts::kWidth + 1).fill_(1);
  }

  std::vector<Tensor> fused(FastmaxForm form) const {
    Generator rng(7);
    FastmaxOptions seeded = options;
    seeded.form = form;
    seeded.generator = &rng;
    return in.fused_gradients(seeded);
  }
};

/// Calls `f(c)` for the orders, causal and not, with both denominators.
template <class F>
void for_each_case(FastmaxDropout kind, F f) {
  for (const Polynomial& polynomial : kPolynomials) {
    if (kind == FastmaxDropout::quadratic && polynomial.a2 == 0) continue;
    for (const bool causal : {false, true}) {
      for (const bool shared : {false, true}) {
        CAPTURE(polynomial.a2);
        CAPTURE(causal);
        CAPTURE(shared);
        f(DropoutCase(polynomial, causal, shared, kind));
      }
    }
  }
}

}  // namespace

TEST_CASE("derivations: the gradient of Fastmax with dropout of tokens") {
  for_each_case(FastmaxDropout::token, [](const DropoutCase& c) {
    const FastmaxParts& in = c.in;
    const Tensor kept = c.q_factors * transpose(c.k_factors);
    const auto weights = [&](const Tensor& s) { return (in.f.a0 + s * (in.f.a1 + in.f.a2 * s) * kept) * in.seen; };
    const auto loss = [&](const Tensor& s) {
      const Tensor g = sum(c.shared ? weights(s) : in.weights(s), {-1}, true);
      return loss_of(matmul(weights(s), in.v) / g, in.d_o);
    };
    const Tensor f = weights(in.s), g = sum(c.shared ? f : in.weights(in.s), {-1}, true);
    const Tensor y = in.d_o / g, t = neg(sum(in.d_o * matmul(f, in.v) / g, {-1}, true)) / g;

    const double shared = c.shared ? 1 : 0, clean = 1 - shared;
    const Tensor ds = in.f.slope(in.s) * (kept * (matmul(y, transpose(in.v)) + shared * t) + clean * t) * in.seen;
    check_step("(16)", ds, tape_gradient(in.s, loss));
    const Tensor dv = matmul(transpose(f), y);
    for (const FastmaxForm form : {FastmaxForm::quadratic, FastmaxForm::factorised}) {
      const std::vector<Tensor> fused = c.fused(form);
      check_step("(16) of q", standardised_gradient(matmul(ds, in.k_hat), in.q), fused[0]);
      check_step("(16) of k", standardised_gradient(matmul(transpose(ds), in.q_hat), in.k), fused[1]);
      check_step("(16) of v", dv, fused[2]);
    }
  });
}

TEST_CASE("derivations: the gradient of Fastmax with dropout of features") {
  for (const FastmaxDropout kind : {FastmaxDropout::standard, FastmaxDropout::quadratic}) {
    CAPTURE(static_cast<int>(kind));
    for_each_case(kind, [](const DropoutCase& c) {
      const FastmaxParts& in = c.in;
      const Tensor ones_of_keys = ones({1, 2, FastmaxParts::kKeys, 1}, DType::float64);
      const auto dropped_of = [](const Tensor& phi, const Tensor& factors) { return factors * phi; };
      const auto loss = [&](const Tensor& q_phi, const Tensor& k_phi) {
        const Tensor q_dropped = dropped_of(q_phi, c.q_factors), k_dropped = dropped_of(k_phi, c.k_factors);
        const Tensor numerators = in.apply(in.sums_over_keys(k_dropped, in.v), q_dropped);
        const Tensor z = in.sums_over_keys(c.shared ? k_dropped : k_phi, ones_of_keys);
        return loss_of(numerators / in.apply(z, c.shared ? q_dropped : q_phi), in.d_o);
      };
      const Tensor q_dropped = dropped_of(in.q_phi, c.q_factors), k_dropped = dropped_of(in.k_phi, c.k_factors);
      const Tensor state = in.sums_over_keys(k_dropped, in.v);
      const Tensor z = in.sums_over_keys(c.shared ? k_dropped : in.k_phi, ones_of_keys);
      const Tensor g = in.apply(z, c.shared ? q_dropped : in.q_phi), o = in.apply(state, q_dropped) / g;
      const Tensor y = in.d_o / g, t = neg(sum(in.d_o * o, {-1}, true)) / g;

      const double shared = c.shared ? 1 : 0, clean = 1 - shared;
      const Tensor through_z = in.apply_to_cotangents(z, t);
      const Tensor dq_phi = c.q_factors * (in.apply_to_cotangents(state, y) + shared * through_z) + clean * through_z;
      check_step("(17) of q", dq_phi, tape_gradient(in.q_phi, [&](const Tensor& x) { return loss(x, in.k_phi); }));
      const Tensor r = in.sums_over_queries(q_dropped, y);
      const Tensor r_z = in.sums_over_queries(c.shared ? q_dropped : in.q_phi, t);
      const Tensor through_r_z = in.apply_to_cotangents(r_z, ones_of_keys);
      const Tensor dk_phi =
          c.k_factors * (in.apply_to_cotangents(r, in.v) + shared * through_r_z) + clean * through_r_z;
      check_step("(17) of k", dk_phi, tape_gradient(in.k_phi, [&](const Tensor& x) { return loss(in.q_phi, x); }));

      const auto through_features = [&](const Tensor& dphi, const Tensor& x_hat) {
        return gradient_of_augmented(dphi, with_ones(x_hat, true), in.f.a2 != 0).narrow(3, 1, FastmaxParts::kWidth);
      };
      const Tensor dq_hat = through_features(dq_phi, in.q_hat), dk_hat = through_features(dk_phi, in.k_hat);
      const std::vector<Tensor> fused = c.fused(FastmaxForm::factorised);
      check_step("(17) of queries", standardised_gradient(dq_hat, in.q), fused[0]);
      check_step("(17) of keys", standardised_gradient(dk_hat, in.k), fused[1]);
      check_step("(17) of v", in.apply(r, k_dropped), fused[2]);
      CHECK(max(abs(mean(dq_hat, {-1}))).item<double>() > 1e-3);  // so that step (6) needs its middle term

      // All tokens as one chunk, weight by weight.
      const Tensor dweights = (matmul(y, transpose(in.v)) + shared * t) * in.seen;
      const Tensor clean_ds = in.f.slope(in.s) * (clean * t) * in.seen;
      const Tensor of_q = in.w * matmul(dweights, k_dropped), of_k = in.w * matmul(transpose(dweights), q_dropped);
      check_step("(18) of q", through_features(c.q_factors * of_q, in.q_hat) + matmul(clean_ds, in.k_hat), dq_hat);
      check_step("(18) of k", through_features(c.k_factors * of_k, in.k_hat) + matmul(transpose(clean_ds), in.q_hat),
                 dk_hat);
    });
  }
}
