// Solutions to the exercises of chapter 8.

#include <fmt/core.h>

#include <cmath>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// 1. q is the same for all tokens, so it can be moved out of the sum: k = Σ β_i (q ∘ k_i) = q ∘ Σ β_i k_i. And w_k·(q
//    ∘ k_i) is Σ_d w_d q_d k_id = (w_k ∘ q)·k_i: only the weights change, not the keys.

void factor_out(Generator& rng) {
  const Tensor k = randn({20, 8}, rng, DType::float64), q = randn({8}, rng, DType::float64);
  const Tensor w = randn({8}, rng, DType::float64), p = q * k;
  const Tensor beta = softmax(matmul(p, w) / std::sqrt(8.0), 0), with_p = matmul(beta, p);
  const Tensor without_p = q * matmul(softmax(matmul(k, w * q) / std::sqrt(8.0), 0), k);
  check((with_p - without_p).abs().max().item() < 1e-14, "p need not be stored");
  fmt::print("1. the global key is the same without p\n");
}

// 2. There are three projections of C² parameters each: of the queries (which the values share), of the keys and of
//    the output. w_q and w_k have D numbers for each of H heads, C each: 3C² + 2C. A bias adds C to each projection.

void count_parameters(Generator& rng) {
  struct Holder : nn::Module {
    explicit Holder(Generator& generator) : Module(generator) {}
  } holder(rng);
  const auto layer =
      nn::make_attention(holder, "attention", {.mechanism = "fastformer", .width = 64, .heads = 4, .bias = false});
  int64_t count = 0;
  for (const Tensor& parameter : layer->parameters()) count += parameter.numel();
  fmt::print("2. a layer of width 64 has {} parameters\n", count);
  check(count == 3 * 64 * 64 + 2 * 64, "a layer has 3C² + 2C parameters");
}

// 3. No: both summaries are sums over all tokens, and sums have no order. Only the causal form knows which tokens
//    came before, and even there it does not know their order.

void permute_others(Generator& rng) {
  const Tensor x = randn({1, 1, 9, 4}, rng, DType::float64), w = randn({1, 4}, rng, DType::float64);
  const Tensor order = tensor({0, 5, 3, 8, 1, 7, 2, 6, 4}, DType::int64), other = index_select(x, 2, order);
  const auto first = [&](const Tensor& t) { return additive_attention({t, t, t}, {{w}, {w}})[{0, 0, 0}]; };
  check((first(x) - first(other)).abs().max().item() < 1e-14, "the order of the others does not matter");
  fmt::print("3. the first token's output does not depend on the order of the others\n");
}

int main() {
  Generator rng(1);
  factor_out(rng);
  count_parameters(rng);
  permute_others(rng);
}
