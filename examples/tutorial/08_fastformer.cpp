// # 8. Fastformer, equation by equation
//
// Softmax attention compares every token with every other: N² scores. Fastformer (Wu et al. 2021) combines every
// token with a *summary* of all tokens instead. A summary is one sum over the tokens, so the time is proportional to
// N, not to N². This chapter computes the paper's equations 3 to 6 line by line, for one head of $D$ numbers.

#include <fmt/core.h>

#include <cmath>
#include <functional>

#include <linnet/linnet.h>

#include "support/bench/timing.h"
#include "support/plot/plot.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// ## A weighted sum of all tokens
//
// Additive attention scores each token by itself, as the dot product of its vector with a learned vector $w$. A
// softmax over all tokens turns the scores into weights. There are N of them, not N².

/// softmax_i(w·x_i/√D) for x of [N, D] and w of [D]: [N, 1].
Tensor additive_weights(const Tensor& x, const Tensor& w) {
  return softmax(matmul(x, w) / std::sqrt(double(x.size(1))), 0).unsqueeze(1);
}

// ## Equations 3 to 6
//
// $$\alpha_i = \mathrm{softmax}_i(w_q^\top q_i/\sqrt{D}), \qquad q = \sum_i \alpha_i q_i$$
//
// is the *global query*, a summary of all queries (eqs. 3 and 4). Its elementwise product with each key, written
// $\circ$, is $p_i = q \circ k_i$. A second weighted sum, of these $p_i$, is the *global key* (eqs. 5 and 6):
//
// $$\beta_i = \mathrm{softmax}_i(w_k^\top p_i/\sqrt{D}), \qquad k = \sum_i \beta_i p_i$$
//
// Each value is multiplied by the global key, $u_i = k \circ v_i$. A linear layer follows, and the queries are added
// to its result. So each output combines the token's own $v_i$ and $q_i$ with a summary of all tokens, $k$. This
// summary contains the global query $q$.

Tensor fastformer(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w_q, const Tensor& w_k) {
  const Tensor alpha = additive_weights(q, w_q);     // eq. 3
  const Tensor global_q = (alpha * q).sum(0, true);  // eq. 4, [1, D]
  const Tensor p = global_q * k;                     // broadcast to each token
  const Tensor beta = additive_weights(p, w_k);      // eq. 5
  const Tensor global_k = (beta * p).sum(0, true);   // eq. 6
  return global_k * v;
}

// ## A causal form
//
// When a model generates text, token $i$ may see only the tokens $j \le i$, so it needs the summary of its own
// prefix. The paper has no such form. A sum over each prefix is a running sum, so it costs no more:
//
// $$q^{(i)} = \frac{\sum_{j \le i} e^{s_j} q_j}{\sum_{j \le i} e^{s_j}}$$
//
// With `cumsum` this is one line, but $e^{s_j}$ overflows for large scores. Subtracting the largest of all scores
// does not help: if a late score is much larger than the early ones, their exponentials become 0, and the output of
// an early token is 0 divided by 0. linnet's kernel uses a running maximum instead, as chapter 7 does.

Tensor prefix_pool(const Tensor& scores, const Tensor& x) {  // [N], [N, D]
  const Tensor e = exp(scores - scores.max()).unsqueeze(1);
  return (e * x).cumsum(0) / e.cumsum(0);
}

void show_causal(Generator& rng) {
  const Tensor x = randn({5, 2}, rng, DType::float64);
  const auto stable = [&](const Tensor& s) {
    return attention_pool(s.reshape({1, 1, 5}), x.reshape({1, 1, 5, 2}), {.causal = true})[{0, 0}];
  };
  const Tensor small = tensor({1, -1, 2, 0, 1}, DType::float64), large = tensor({-800, 0, 0, 0, 80}, DType::float64);
  check((prefix_pool(small, x) - stable(small)).abs().max().item() < 1e-14, "both forms agree for small scores");
  fmt::print("the first output with scores of -800 … 80\n  by cumsum          {}\n  by attention_pool  {}\n",
             to_string(prefix_pool(large, x)[0]), to_string(stable(large)[0]));
  fmt::print("  it should be       {}\n", to_string(x[0]));
  check(allclose(stable(large)[0], x[0]), "attention_pool is stable");
}

/// The least of the measured times, since other programs may slow some of them down.
double milliseconds(const std::function<void()>& work) { return examples::measure(work, 0).least_ms; }

int main() {
  Generator rng(1);
  const auto rows = [&] { return randn({40, 16}, rng, DType::float64); };
  const auto head = [](const Tensor& x) { return x.reshape({1, 1, x.size(0), x.size(1)}); };
  const Tensor q = rows(), k = rows(), v = rows(), w_q = randn({16}, rng, DType::float64),
               w_k = randn({16}, rng, DType::float64);
  const Tensor op = additive_attention({head(q), head(k), head(v)}, {{w_q.unsqueeze(0)}, {w_k.unsqueeze(0)}});
  check((op[{0, 0}] - fastformer(q, k, v, w_q, w_k)).abs().max().item() < 1e-12, "the op computes the equations");
  show_causal(rng);

  NoGrad no_grad;
  examples::Series additive{.label = "Fastformer"}, softmax{.label = "softmax"};
  for (const int64_t n : {256, 512, 1024, 2048, 4096}) {
    const Tensor x = randn({1, 4, n, 32}, rng), w = randn({4, 32}, rng);
    additive.y.push_back(milliseconds([&] { additive_attention({x, x, x}, {{w}, {w}}); }));
    softmax.y.push_back(milliseconds([&] { softmax_attention(x, x, x); }));
    for (examples::Series* series : {&additive, &softmax}) series->x.push_back(double(n));
  }
  examples::write_png(
      {"Time of attention, forward", "4 heads of 32", "tokens N", "ms", true, true, {additive, softmax}},
      "08_time.png");
}
// <!-- output -->
// ![Milliseconds of Fastformer and of softmax attention against the number of tokens](08_time.png)
//
// ## Exercises
//
// 1. $p_i$ need not be stored: show that $k = q \circ \sum_i \beta_i k_i$, and find $w_k^\top p_i$ without $p_i$ too.
// 2. How many parameters does a layer of width $C$ have if queries and values share a projection? Count linnet's.
// 3. Without positions, does Fastformer's output for a token depend on the order of the other tokens?
