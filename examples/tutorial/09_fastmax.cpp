// # 9. Fastmax: why it is linear
//
// Fastformer has no weights for pairs of tokens. Fastmax (Gerami et al. 2024) has a weight for each pair of query and
// key, and still takes time proportional to N. It replaces $e^s$ in softmax by a polynomial, and then exchanges the
// order of two sums.

#include <fmt/core.h>

#include <functional>

#include <linnet/linnet.h>

#include "support/bench/timing.h"
#include "support/plot/plot.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// ## Equations 5 to 12
//
// First, queries and keys are standardised: each has mean 0 and variance 1 over its $D$ numbers (eqs. 5 and 6). Then
// the weight of a pair is a Taylor polynomial of $e^s$, of order 2 here (eq. 8):
//
// $$f(s) = 1 + s + \frac{s^2}{2}, \qquad s_{ij} = \hat q_i \cdot \hat k_j$$
//
// $$o_i = \frac{\sum_j f(s_{ij})\, v_j}{\sum_j f(s_{ij})}$$
//
// Since $f(s) = ((1 + s)^2 + 1)/2 \ge 1/2$, no weight is negative and the denominator is never 0.

Tensor standardised(const Tensor& x) {
  const Tensor centred = x - x.mean(1, true);                     // eq. 5
  return centred * rsqrt(centred.square().mean(1, true) + 1e-5);  // eq. 6; 1e-5 is for vectors of equal numbers
}

/// The formula as written, with N² weights.
Tensor quadratic(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor s = matmul(standardised(q), standardised(k).t()), f = 1 + s + s.square() / 2;
  return matmul(f, v) / f.sum(1, true);
}

// ## The exchange
//
// A polynomial of a product of vectors can be written as a product of *longer* vectors. For the square:
//
// $$(\hat q \cdot \hat k)^2 = \sum_a \hat q_a \hat k_a \sum_b \hat q_b \hat k_b$$
//
// $$= \sum_{a,b} (\hat q_a \hat q_b)(\hat k_a \hat k_b)$$
//
// So $f(\hat q \cdot \hat k) = \phi_q(\hat q) \cdot \phi_k(\hat k)$. The *features* $\phi_k(x)$ are 1, all $x_a$ and
// all $x_a x_b$, and $\phi_q$ divides the $x_a x_b$ by 2. These are $M = 1 + D + D^2$ numbers. Now the query can be
// moved out of the sum:
//
// $$\sum_j f(s_{ij})\,v_j^\top = \phi_q(\hat q_i)^\top S, \qquad S = \sum_j \phi_k(\hat k_j)\,v_j^\top$$
//
// $S$ is an $M \times D$ matrix that does not depend on $i$. It is computed once, in N steps, and used by all N
// queries. No finite list of features does this for $e^s$, because its series contains all powers. The denominator is
// the same sum with 1 in place of each value, so the values get one more column, of ones (eqs. 20 to 29).

/// [N, D] → [N, 1 + D + D²]; `half` divides the products by 2.
Tensor features(const Tensor& x, bool half) {
  const Tensor products = (x.unsqueeze(2) * x.unsqueeze(1)).reshape({x.size(0), -1});
  return concat({ones({x.size(0), 1}, x.dtype()), x, half ? products / 2 : products}, 1);
}

Tensor with_one(const Tensor& v) { return concat({v, ones({v.size(0), 1}, v.dtype())}, 1); }

Tensor factorised(const Tensor& q, const Tensor& k, const Tensor& v) {
  const Tensor s = matmul(features(standardised(k), false).t(), with_one(v));  // [M, D + 1]
  const Tensor f = matmul(features(standardised(q), true), s);                 // [N, D + 1]
  return f.narrow(1, 0, v.size(1)) / f.narrow(1, v.size(1), 1);
}

// ## When is it faster?
//
// The first form takes $4 N^2 D$ operations, the second $4 N M (D + 1)$. The second takes fewer once $N > M (D+1)/D$,
// which is about $D^2$. Since $x_a x_b$ and $x_b x_a$ are equal, linnet keeps one of them with twice the weight. Then
// $M = (D+1)(D+2)/2$, and half as many tokens are enough. The first form is faster for short texts; `fastmax` chooses
// by N and D. Operations are not the only cost: this program also writes its features to memory and reads them again,
// so the lines in the picture may cross at a larger N.

/// The least of the measured times, since other programs may slow some of them down.
double milliseconds(const std::function<void()>& work) { return examples::measure(work, 0).least_ms; }

int main() {
  Generator rng(1);
  const auto rows = [&](int64_t n, DType dtype) { return randn({n, 16}, rng, dtype); };
  const Tensor q = rows(50, DType::float64), k = rows(50, DType::float64), v = rows(50, DType::float64);
  const auto head = [](const Tensor& x) { return x.reshape({1, 1, x.size(0), x.size(1)}); };
  const double forms = (quadratic(q, k, v) - factorised(q, k, v)).abs().max().item();
  const double op = (fastmax(head(q), head(k), head(v))[{0, 0}] - quadratic(q, k, v)).abs().max().item();
  check(forms < 1e-12 && op < 1e-12, "both forms and the op agree");
  fmt::print("both forms and linnet's fastmax agree to 1e-12\n");
  fmt::print("D = 16: {} features, or {} without doubles\n", features(q, true).size(1), 17 * 18 / 2);
  examples::Series lines[] = {{.label = "quadratic"}, {.label = "factorised"}, {.label = "fastmax"}};
  for (const int64_t n : {64, 128, 256, 512, 1024, 2048, 4096}) {
    const Tensor x = rows(n, DType::float32), y = head(x);
    lines[0].y.push_back(milliseconds([&] { quadratic(x, x, x); }));
    lines[1].y.push_back(milliseconds([&] { factorised(x, x, x); }));
    lines[2].y.push_back(milliseconds([&] { fastmax(y, y, y); }));
    for (examples::Series& line : lines) line.x.push_back(double(n));
  }
  examples::write_png(
      {"Time of Fastmax", "one head of 16", "tokens N", "ms", true, true, {lines[0], lines[1], lines[2]}},
      "09_time.png");
}
// <!-- output -->
// ![Milliseconds of both forms, and of the op, against the number of tokens](09_time.png)
//
// ## Exercises
//
// 1. Make it causal: $S$ becomes a running sum over the keys. Compare it with `fastmax`. How much memory does it
//    take?
// 2. Write the features without duplicates, $(D+1)(D+2)/2$ of them, and check that $\phi_q \cdot \phi_k$ stays the
//    same.
// 3. Why does order 1, $f(s) = 1 + s$, need another scale of the scores? Find the smallest weight for standardised
//    vectors.
