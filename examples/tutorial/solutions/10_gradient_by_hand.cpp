// Solutions to the exercises of chapter 10.

#include <fmt/core.h>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

Tensor leaf(Generator& rng, int64_t n = 20) { return randn({n, 4}, rng, DType::float64).set_requires_grad(); }
Tensor head(const Tensor& x) { return x.detach().reshape({1, 1, x.size(0), x.size(1)}).set_requires_grad(); }
void same(const Tensor& a, const Tensor& b, const char* what) { check((a - b).abs().max().item() < 1e-11, what); }

// 1. With c = x − mean(x) and r = 1/std: x̂ = c·r, and dr/dc_b = −r³ c_b/D. With h = dL/dx̂ this gives dL/dc_b =
//    r·(h_b − x̂_b mean(h ∘ x̂)). Each x_a also changes the mean: dL/dx = dL/dc − mean(dL/dc).

Tensor standardised_backward(const Tensor& x, const Tensor& h) {
  const Tensor c = x - x.mean(1, true), r = rsqrt(c.square().mean(1, true) + 1e-5), x_hat = c * r;
  const Tensor dc = r * (h - x_hat * (h * x_hat).mean(1, true));
  return dc - dc.mean(1, true);
}

struct Forward {
  Tensor q_hat, k_hat, f, g, o;
};

Forward forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& seen) {
  const auto hat = [](const Tensor& x) {
    const Tensor c = x - x.mean(1, true);
    return c * rsqrt(c.square().mean(1, true) + 1e-5);
  };
  const Tensor q_hat = hat(q), k_hat = hat(k), s = matmul(q_hat, k_hat.t());
  const Tensor f = where(seen, 1 + s + s.square() / 2, 0), g = f.sum(1, true);
  return {q_hat, k_hat, f, g, matmul(f, v) / g};
}

// 2. The queries i ≥ n see key n, so its R is the sum over these queries: a running sum from the end.

Tensor features(const Tensor& x, double a2) {
  return concat({ones({x.size(0), 1}, x.dtype()), x, a2 * (x.unsqueeze(2) * x.unsqueeze(1)).reshape({x.size(0), -1})},
                1);
}

void causal_values(Generator& rng) {
  const Tensor q = leaf(rng), k = leaf(rng), v = leaf(rng), g = randn({20, 4}, rng, DType::float64);
  const Tensor hq = head(q), hk = head(k), hv = head(v);
  backward(fastmax(hq, hk, hv, {.causal = true}), {.grad = g.reshape({1, 1, 20, 4})});

  NoGrad no_grad;
  const Forward y = forward(q, k, v, ones({20, 20}, DType::boolean).tril());
  const Tensor u = g / y.g, terms = features(y.q_hat, 0.5).unsqueeze(2) * u.unsqueeze(1);  // [N, M, D]
  const Tensor r = terms.flip({0}).cumsum(0).flip({0});
  const Tensor dv = matmul(features(y.k_hat, 1).unsqueeze(1), r).squeeze(1);
  same(dv, hv.grad()[{0, 0}], "the causal dL/dv is that of fastmax");
}

// 3. In the N×N form, with the weight p = f/g, dL/dv_j = Σ_i p_ij G_i as before, and dL/ds_ij = f'(s_ij) (G_i·v_j −
//    G_i·o_i)/g_i. Softmax has p_ij = e^s/g as the factor, since e^s is its own derivative. Here f'(s)/g takes its
//    place, with f' = 1 + s.

void derive(Generator& rng, bool causal) {
  const Tensor q = leaf(rng), k = leaf(rng), v = leaf(rng), g = randn({20, 4}, rng, DType::float64);
  const Tensor all = ones({20, 20}, DType::boolean), seen = causal ? all.tril() : all;
  const Tensor hq = head(q), hk = head(k), hv = head(v);
  backward(fastmax(hq, hk, hv, {.causal = causal}), {.grad = g.reshape({1, 1, 20, 4})});

  NoGrad no_grad;
  const Forward y = forward(q, k, v, seen);
  const Tensor s = matmul(y.q_hat, y.k_hat.t());
  const Tensor ds = where(seen, (1 + s) * (matmul(g, v.t()) - (g * y.o).sum(1, true)) / y.g, 0);
  same(standardised_backward(q, matmul(ds, y.k_hat)), hq.grad()[{0, 0}], "dL/dq is that of fastmax");
  same(standardised_backward(k, matmul(ds.t(), y.q_hat)), hk.grad()[{0, 0}], "dL/dk is that of fastmax");
  same(matmul((y.f / y.g).t(), g), hv.grad()[{0, 0}], "dL/dv is that of fastmax");
}

int main() {
  Generator rng(1);
  derive(rng, false);
  fmt::print("1. the gradients of q and k are those of fastmax\n");
  causal_values(rng);
  fmt::print("2. the causal gradient of v is that of fastmax\n");
  derive(rng, true);
  fmt::print("3. f'(s)/g stands for p, causal or not\n");
}
