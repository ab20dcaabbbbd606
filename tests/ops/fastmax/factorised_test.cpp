/// Compares the plain factorised Fastmax with the definition and with the fused op.

#include <linnet/ops/detail/fastmax_factorised.h>

#include <doctest/doctest.h>

#include <functional>
#include <limits>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/fastmax/fastmax.h>

#include "tests/ops/attention/attention_reference.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// Weights 1 + s + s²/2, or 1 + s for order 1, of scores s = scale · q̂·k̂.
FastmaxParams taylor(int order, double scale, bool causal) {
  return {.a0 = 1,
          .a1 = scale,
          .a2 = order == 2 ? scale * scale / 2 : 0,
          .map = RowMap::standardise,
          .causal = causal,
          .keep_of_256 = 256,
          .dropout = FastmaxDropout::token,
          .shared_denominator = false,
          .q_rng = {},
          .k_rng = {}};
}

using Attend = std::function<Tensor(const Tensor& q, const Tensor& k, const Tensor& v)>;

/// Gradients of q, k and v, and the output.
std::vector<Tensor> all_results(const Attend& attend, const Shape& queries, const Shape& keys) {
  std::vector<Tensor> in{normal(queries, 1), normal(keys, 2), normal(keys, 3)};
  for (Tensor& x : in) x.set_requires_grad();
  const Tensor o = attend(in[0], in[1], in[2]);
  std::vector<Tensor> results = grad({o}, in, {.grad_outputs = {normal(o.shape(), 4)}});
  results.push_back(o.detach());
  return results;
}

void check_near(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_error(a[i], b[i].to_vector<double>()) < 1e-12);
  }
}

}  // namespace

TEST_CASE("fastmax: the factorised form composed of ops is the definition, and the fused op") {
  struct Size {
    int64_t n, m, d;
  };
  for (const auto& [n, m, d] : {Size{5, 5, 3}, {70, 70, 6}, {40, 55, 8}, {55, 40, 8}, {3, 90, 5}}) {
    const Shape queries{2, 2, n, d}, keys{2, 2, m, d};
    Tensor padding_mask = keep_all_but(2, m, {{0, 0}, {0, m - 1}, {1, m / 2}});
    for (const bool causal : {false, true}) {
      for (const bool padded : {false, true}) {
        for (const int order : {1, 2}) {
          CAPTURE(n);
          CAPTURE(m);
          CAPTURE(causal);
          CAPTURE(padded);
          CAPTURE(order);
          const double scale = 0.9 / static_cast<double>(d);
          FastmaxOptions options{.order = order, .scale = scale, .causal = causal};
          if (padded) options.padding_mask = padding_mask;
          const FastmaxParams params = taylor(order, scale, causal);
          const auto plain = all_results(
              [&](const Tensor& q, const Tensor& k, const Tensor& v) {
                return detail::factorised_fastmax(q, k, v, options.padding_mask, params);
              },
              queries, keys);
          for (const FastmaxForm form : {FastmaxForm::reference, FastmaxForm::factorised}) {
            options.form = form;
            check_near(plain, all_results([&](const Tensor& q, const Tensor& k,
                                              const Tensor& v) { return fastmax(q, k, v, options); },
                                          queries, keys));
          }
        }
      }
    }
  }
}

TEST_CASE("fastmax: the factorised form composed of ops takes what padding holds, and no keys, as the others do") {
  const FastmaxParams params = taylor(2, 0.5, true);
  const Tensor q = normal({1, 1, 4, 3}, 1), k = normal({1, 1, 4, 3}, 2), v = normal({1, 1, 4, 3}, 3);
  const Tensor padding_mask = keep_all_but(1, 4, {{0, 0}, {0, 2}});
  const auto attend = [&](double held) {
    Tensor keys = k.clone(), values = v.clone();
    for (const int64_t i : {0, 2}) {
      keys.narrow(2, i, 1).fill_(held);
      values.narrow(2, i, 1).fill_(held);
    }
    return detail::factorised_fastmax(q, keys, values, padding_mask, params).to_vector<double>();
  };
  CHECK(attend(std::numeric_limits<double>::quiet_NaN()) == attend(1));
  CHECK(attend(1)[0] == 0);  // the first query sees only padding
  const Tensor none = zeros({1, 1, 0, 3}, DType::float64);
  for (const double x : detail::factorised_fastmax(q, none, none, {}, params).to_vector<double>()) CHECK(x == 0);
  CHECK_THROWS_AS(detail::factorised_fastmax(q, k, v.narrow(3, 0, 2), {}, params), ShapeError);
}
