// # 10. Fastmax's gradient by hand, against the tape
//
// The tape can differentiate the factorised form of chapter 9, but for that it saves the features of all tokens: $NM$
// numbers. The paper leaves a gradient without them as future work (section 2.5). This chapter derives one that saves
// only $\hat q$, $\hat k$, $v$, the output and the denominator, each of size $N \times D$ or less.

#include <fmt/core.h>

#include <linnet/linnet.h>

#include "support/plot/plot.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// Forward is as in chapter 9. The values have one more column, of ones, for the denominator $g$.

Tensor features(const Tensor& x, double c) {  // [N, D] → [N, 1 + D + D²]
  return concat({ones({x.size(0), 1}, x.dtype()), x, c * (x.unsqueeze(2) * x.unsqueeze(1)).reshape({x.size(0), -1})},
                1);
}
Tensor with_one(const Tensor& v) { return concat({v, ones({v.size(0), 1}, v.dtype())}, 1); }

struct Kept {
  Tensor q, k, v, o, g;  // [N, D] each, except g: [N, 1]
};

Kept forward(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor s = matmul(features(k, 1).t(), with_one(v)), f = matmul(features(q, 0.5), s);
  const Tensor g = f.narrow(1, v.size(1), 1);
  return {q, k, v, f.narrow(1, 0, v.size(1)) / g, g};
}

// ## Step 1: the quotient
//
// $o_i = F_i / g_i$, and $G_i = \partial L/\partial o_i$ is given. The derivatives of the quotient are $1/g$ and
// $-F/g^2 = -o/g$. So the gradient of $F_i$ is $G_i/g_i$, and the gradient of $g_i$ is $-G_i \cdot o_i/g_i$. Together
// they are a vector $u_i$ of $D + 1$ numbers.
//
// ## Step 2: two products
//
// $[F_i, g_i] = S^\top \phi_q(\hat q_i)$ with $S = \sum_n \phi_k(\hat k_n)\,\tilde v_n^\top$ and
// $\tilde v_n = [v_n, 1]$. Both are products, whose gradients chapter 2 derived. Let
// $R = \sum_i \phi_q(\hat q_i)\,u_i^\top$, which is $\partial L/\partial S$. Then the gradients of
// $\phi_q(\hat q_i)$, $\phi_k(\hat k_n)$ and $\tilde v_n$ are $S u_i$, $R \tilde v_n$ and $R^\top \phi_k(\hat k_n)$,
// in this order. $R$ is a sum over the N queries, as $S$ is a sum over the N keys, so the time is linear again.
//
// ## Step 3: the features
//
// The features are 1, $x_a$ and $c\,x_a x_b$. Let $w_a$ be the gradient of the second part, and $W_{ab}$ that of the
// third. Then the gradient of $x_a$ is $w_a + c \sum_b (W_{ab} + W_{ba})\,x_b$. For all $x_a$ together it is
// $w + c\,(W + W^\top)\,x$.

Tensor features_backward(const Tensor& x, const Tensor& gradient, double c) {
  const int64_t n = x.size(0), d = x.size(1);
  const Tensor w = gradient.narrow(1, 1 + d, d * d).reshape({n, d, d});
  return gradient.narrow(1, 1, d) + c * matmul(w + w.transpose(1, 2), x.unsqueeze(2)).squeeze(2);
}

struct Gradients {
  Tensor q, k, v;
};

Gradients backward_by_hand(const Kept& kept, const Tensor& grad_o) {
  const Tensor f = grad_o / kept.g, u = concat({f, -(f * kept.o).sum(1, true)}, 1);  // step 1
  const Tensor phi_q = features(kept.q, 0.5), phi_k = features(kept.k, 1), v = with_one(kept.v);
  const Tensor s = matmul(phi_k.t(), v), r = matmul(phi_q.t(), u);  // step 2
  return {features_backward(kept.q, matmul(u, s.t()), 0.5),         // step 3
          features_backward(kept.k, matmul(v, r.t()), 1), matmul(phi_k, r).narrow(1, 0, kept.v.size(1))};
}

// ## Against the tape
//
// The tape must find the same gradients through the N×N form. `gradcheck` compares the tape with finite differences.

Tensor quadratic(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor s = matmul(q, k.t()), f = 1 + s + s.square() / 2;
  return matmul(f, v) / f.sum(1, true);
}

double megabytes_kept(int64_t n, Generator& rng, bool by_tape) {
  const Tensor x = randn({n, 16}, rng).set_requires_grad(by_tape);
  const int64_t before = memory_stats().live;
  const Kept kept = forward(x, x, x);
  return double(memory_stats().live - before) / 1e6;
}

int main() {
  Generator rng(1);
  const auto leaf = [&] { return randn({40, 6}, rng, DType::float64).set_requires_grad(); };
  const Tensor q = leaf(), k = leaf(), v = leaf(), grad_o = randn({40, 6}, rng, DType::float64);
  backward(quadratic(q, k, v), {.grad = grad_o});
  {
    NoGrad no_grad;
    const Gradients by_hand = backward_by_hand(forward(q, k, v), grad_o);
    const Tensor differences = concat({by_hand.q - q.grad(), by_hand.k - k.grad(), by_hand.v - v.grad()}, 0);
    check(differences.abs().max().item() < 1e-12, "the gradients by hand are the tape's");
    fmt::print("the gradients by hand are the tape's, to 1e-12\n");
  }
  const Tensor few = randn({5, 3}, rng, DType::float64).set_requires_grad();
  check(gradcheck([](const auto& in) { return forward(in[0], in[0], in[0]).o; }, {few}), "and those of differences");

  examples::Series tape{.label = "the tape keeps"}, hand{.label = "by hand"};
  for (const int64_t n : {256, 512, 1024, 2048, 4096}) {
    tape.x.push_back(double(n)), tape.y.push_back(megabytes_kept(n, rng, true));
    hand.x.push_back(double(n)), hand.y.push_back(megabytes_kept(n, rng, false));
  }
  fmt::print("4,096 tokens: the tape keeps {:.1f} MB, the derivation {:.1f} MB\n", tape.y.back(), hand.y.back());
  examples::write_png({"Kept for backward", "one head of 16", "tokens N", "MB", true, true, {tape, hand}},
                      "10_kept.png");
}
// <!-- output -->
// ![Megabytes that are kept for backward against tokens](10_kept.png)
//
// ## Exercises
//
// 1. Continue through $\hat q = (q - \mathrm{mean}) / \mathrm{std}$ to $q$, and compare with `fastmax`.
// 2. Make it causal. Which queries does the sum $R$ for key $n$ contain? Check it against the tape.
// 3. Derive the gradient of the N×N form too. Which factor takes the place of softmax attention's $p_{ij}$?
