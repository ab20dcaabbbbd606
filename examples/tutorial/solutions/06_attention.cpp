// Solutions to the exercises of chapter 6.

#include <fmt/core.h>

#include <cmath>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// 1. If the tokens are permuted, the outputs are permuted in the same way, and nothing else changes: each output is a
//    sum over all tokens, and a sum has no order. So models add a vector for each position, or rotate queries and
//    keys by an angle that depends on it.

void permute_tokens(Generator& rng) {
  const Tensor x = randn({1, 1, 8, 4}, rng, DType::float64), order = randperm(8, rng);
  const Tensor y = softmax_attention(x, x, x), permuted = index_select(x, 2, order);
  const Tensor z = softmax_attention(permuted, permuted, permuted);
  const double difference = (index_select(y, 2, order) - z).abs().max().item();
  check(difference < 1e-14, "permuted tokens have permuted outputs");
  fmt::print("1. permuted tokens have the same outputs, permuted, up to {:.0e}\n", difference);
}

// 2. The products QKᵀ and PV take 2N²D operations each. That is 4N²D per head, and 4N²C for all heads together. 8
//    heads have 8 N² weights. At N = 65,536 these take 128 GiB in float32. Chapter 7 avoids storing them.

void count_weights() {
  const double tokens = 65536, gib = 8 * tokens * tokens * 4 / (1 << 30);
  fmt::print("2. the weights take {} GiB\n", gib);
  check(gib == 128, "the weights take 128 GiB");
}

// 3. With G = dL/dO: O = PV is a product, so dL/dV = PᵀG and dL/dP = GVᵀ. For a softmax, dp_j/ds_l = p_j (δ_jl −
//    p_l). So dL/ds_l = Σ_j dL/dp_j p_j (δ_jl − p_l) = p_l (dL/dp_l − Σ_j p_j dL/dp_j). For row i, the last sum is
//    the dot product G_i·o_i. S = QKᵀ/√D is a product again, so dL/dQ = dL/dS K/√D and dL/dK = (dL/dS)ᵀ Q/√D.

void derive_gradient(Generator& rng) {
  const auto leaf = [&] { return randn({6, 4}, rng, DType::float64).set_requires_grad(); };
  const Tensor q = leaf(), k = leaf(), v = leaf(), g = randn({6, 4}, rng, DType::float64);
  const double scale = 1 / std::sqrt(4.0);
  backward(matmul(softmax(matmul(q, k.t()) * scale, 1), v), {.grad = g});

  const NoGrad no_grad;
  const Tensor p = softmax(matmul(q, k.t()) * scale, 1), o = matmul(p, v);
  const Tensor dv = matmul(p.t(), g), dp = matmul(g, v.t());
  const Tensor ds = p * (dp - (g * o).sum(1, true));
  const Tensor dq = matmul(ds, k) * scale, dk = matmul(ds.t(), q) * scale;
  for (const Tensor& difference : {dv - v.grad(), dq - q.grad(), dk - k.grad()}) {
    check(difference.abs().max().item() < 1e-12, "the gradients by hand are backward's");
  }
  fmt::print("3. the gradients by hand are backward's\n");
}

int main() {
  Generator rng(1);
  permute_tokens(rng);
  count_weights();
  derive_gradient(rng);
}
