// Solutions to the exercises of chapter 7.

#include <fmt/core.h>

#include <cmath>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

constexpr int64_t kTile = 16;

// 1. Tiles above the diagonal are skipped, and tiles on it need a mask. With n tiles in a row, n(n + 1)/2 of n² tiles
//    remain: about half of the work.

void causal_tiles(Generator& rng) {
  const auto rows = [&] { return randn({64, 8}, rng, DType::float64); };
  const Tensor q = rows(), k = rows(), v = rows(), mask = ones({kTile, kTile}, DType::boolean).tril();
  Tensor out = zeros_like(q);
  int tiles = 0;
  for (int64_t i = 0; i < 64; i += kTile) {
    const auto start = [&](double value, int64_t columns) { return full({kTile, columns}, value, DType::float64); };
    Tensor m = start(-INFINITY, 1), z = start(0, 1), a = start(0, 8);
    for (int64_t j = 0; j <= i; j += kTile, ++tiles) {
      Tensor s = matmul(q.narrow(0, i, kTile), k.narrow(0, j, kTile).t()) / std::sqrt(8.0);
      if (i == j) s = where(mask, s, -INFINITY);
      const Tensor new_m = maximum(m, s.max({1}, true)), shrink = exp(m - new_m), p = exp(s - new_m);
      z = z * shrink + p.sum(1, true);
      a = a * shrink + matmul(p, v.narrow(0, j, kTile));
      m = new_m;
    }
    out.narrow(0, i, kTile).copy_(a / z);
  }
  const auto head = [](const Tensor& x) { return x.reshape({1, 1, 64, 8}); };
  const Tensor op = softmax_attention(head(q), head(k), head(v), {.causal = true});
  check((op.reshape({64, 8}) - out).abs().max().item() < 1e-12, "causal tiles compute causal attention");
  fmt::print("1. {} of 16 tiles are computed\n", tiles);
}

// 2. e^1000 is infinite, and infinity divided by infinity is not a number (NaN). Around 1 only the rounding changes:
//    subtracting m only serves to avoid overflow.

void without_maximum() {
  const Tensor small = tensor({0.5, 1, 1.5}, DType::float64), large = 1000 + small;
  const auto naive = [](const Tensor& s) { return exp(s) / exp(s).sum(); };
  const double difference = (naive(small) - softmax(small, 0)).abs().max().item();
  fmt::print("2. around 1,000: {}; around 1 it differs by {:.0e}\n", to_string(naive(large)), difference);
  check(isnan(naive(large)).all().item<bool>() && difference < 1e-15, "only large scores need the maximum");
}

// 3. Let m be the larger of both maxima. Multiply each half's z and a by e^(m_half − m), and add them. Except for
//    rounding, the order does not matter, so halves can be computed at the same time and merged in any order.

struct Part {
  Tensor m, z, a;
};

Part part_of(const Tensor& scores, const Tensor& v) {
  const Tensor m = scores.max(), p = exp(scores - m);
  return {m, p.sum(), matmul(p, v)};
}
Part merge(const Part& one, const Part& other) {
  const Tensor m = maximum(one.m, other.m), by = exp(one.m - m), by_other = exp(other.m - m);
  return {m, one.z * by + other.z * by_other, one.a * by + other.a * by_other};
}

void merge_halves(Generator& rng) {
  const Tensor s = randn({20}, rng, DType::float64) * 5, v = randn({20, 4}, rng, DType::float64);
  const Part first = part_of(s.narrow(0, 0, 10), v.narrow(0, 0, 10));
  const Part second = part_of(s.narrow(0, 10, 10), v.narrow(0, 10, 10));
  const Part one = merge(first, second), other = merge(second, first);
  const Tensor expected = matmul(softmax(s, 0), v);
  check((one.a / one.z - expected).abs().max().item() < 1e-14, "merged halves are the whole");
  check((other.a / other.z - expected).abs().max().item() < 1e-14, "in the other order too");
  fmt::print("3. merged halves are the whole, in both orders\n");
}

int main() {
  Generator rng(1);
  causal_tiles(rng);
  without_maximum();
  merge_halves(rng);
}
