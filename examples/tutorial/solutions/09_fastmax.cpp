// Solutions to the exercises of chapter 9.

#include <fmt/core.h>

#include <cmath>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

Tensor standardised(const Tensor& x) {
  const Tensor centred = x - x.mean(1, true);
  return centred * rsqrt(centred.square().mean(1, true) + 1e-5);
}

Tensor features(const Tensor& x, bool half) {
  const Tensor products = (x.unsqueeze(2) * x.unsqueeze(1)).reshape({x.size(0), -1});
  return concat({ones({x.size(0), 1}, x.dtype()), x, half ? products / 2 : products}, 1);
}

// 1. Query i uses the sum over the keys up to i. `cumsum` holds all N of these sums, of M·(D + 1) numbers each, in
//    memory. linnet holds only one and updates it from one chunk of tokens to the next.

void causal(Generator& rng) {
  const auto rows = [&] { return randn({30, 4}, rng, DType::float64); };
  const Tensor q = rows(), k = rows(), v = rows(), v1 = concat({v, ones({30, 1}, DType::float64)}, 1);
  const Tensor terms = features(standardised(k), false).unsqueeze(2) * v1.unsqueeze(1);  // [N, M, D + 1]
  const Tensor f = matmul(features(standardised(q), true).unsqueeze(1), terms.cumsum(0)).squeeze(1);
  const Tensor out = f.narrow(1, 0, 4) / f.narrow(1, 4, 1);
  const auto head = [](const Tensor& x) { return x.reshape({1, 1, 30, 4}); };
  const Tensor op = fastmax(head(q), head(k), head(v), {.causal = true});
  check((op[{0, 0}] - out).abs().max().item() < 1e-12, "running sums compute causal fastmax");
  fmt::print("1. running sums compute causal fastmax, with {} numbers in memory\n", terms.numel());
}

// 2. For a < b, one x_a x_b stands for both orders. Queries have the factor ½, and twice ½ is 1. Squares keep the ½.

Tensor packed(const Tensor& x, bool query) {
  std::vector<Tensor> columns{ones({x.size(0), 1}, x.dtype()), x};
  for (int64_t a = 0; a < x.size(1); ++a) {
    for (int64_t b = a; b < x.size(1); ++b) {
      const Tensor product = x.narrow(1, a, 1) * x.narrow(1, b, 1);
      columns.push_back(query && a == b ? product / 2 : product);
    }
  }
  return concat(columns, 1);
}

void without_doubles(Generator& rng) {
  const Tensor q = randn({7, 5}, rng, DType::float64), k = randn({6, 5}, rng, DType::float64);
  const Tensor f = matmul(features(q, true), features(k, false).t()),
               p = matmul(packed(q, true), packed(k, false).t());
  check((f - p).abs().max().item() < 1e-12, "packed features have the same product");
  fmt::print("2. D = 5: {} features instead of {}\n", packed(q, true).size(1), features(q, true).size(1));
}

// 3. A standardised vector has the squared length D, so s lies between −D and D, and 1 + s can be as low as 1 − D.
//    For order 1, linnet scales s by 0.999/D, so that weights are positive.

void smallest_weight() {
  const Tensor x = standardised(arange(8, DType::float64).unsqueeze(0)), s = matmul(x, -x.t());
  const double order_1 = 1 + s.item(), order_2 = 1 + s.item() + s.item() * s.item() / 2;
  fmt::print("3. D = 8, opposite vectors: weight {:.3f} of order 1, {:.3f} of order 2\n", order_1, order_2);
  check(order_1 < -6.99 && order_2 > 0.5, "weights of order 1 can be negative, those of order 2 cannot");
}

int main() {
  Generator rng(1);
  causal(rng);
  without_doubles(rng);
  smallest_weight();
}
