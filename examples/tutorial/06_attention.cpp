// # 6. Attention from its formula
//
// A text is a sequence of *tokens*: characters, words or parts of words. *Attention* lets every token collect what it
// needs from all others (Vaswani et al. 2017).
//
// Linear layers make three vectors of $D$ numbers from each token $i$. The *query* $q_i$ says what the token looks
// for, the *key* $k_i$ says what others can find it by, and the *value* $v_i$ is what it passes on. The score
// $s_{ij} = q_i \cdot k_j / \sqrt{D}$ says how well key $j$ matches query $i$. A softmax turns the scores of a query
// into weights, which are positive and sum to 1. The output is the weighted mean of the values:
//
// $$o_i = \sum_j p_{ij} v_j, \qquad p_{ij} = \frac{e^{s_{ij}}}{\sum_l e^{s_{il}}}$$
//
// For all tokens at once, $O = \mathrm{softmax}(QK^\top/\sqrt{D})\,V$, with a softmax over each row.

#include <fmt/core.h>

#include <cmath>

#include <linnet/linnet.h>

#include "support/plot/heat_map.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;

/// The attention weights for q and k, both [N, D]. They are 0 where `seen`, [N, N], is false.
Tensor weights(const Tensor& q, const Tensor& k, const Tensor& seen) {
  const Tensor scores = matmul(q, k.t()) / std::sqrt(double(q.size(1)));
  return softmax(where(seen, scores, -INFINITY), 1);
}

// ## Why the root of D?
//
// If the $D$ numbers of $q$ and $k$ are independent, with mean 0 and variance 1, each product has variance 1, and the
// sum of $D$ products has variance $D$. Without the division the scores would have a standard deviation of
// $\sqrt{D}$. A softmax of such scores gives nearly all weight to one token, and then its gradient is nearly 0.

void show_scale(Generator& rng) {
  for (const int64_t width : {16, 256}) {
    const Tensor q = randn({1000, width}, rng), k = randn({1000, width}, rng);
    const double deviation = matmul(q, k.t()).var().sqrt().item();
    fmt::print("width {:3}: scores deviate by {:.1f}\n", width, deviation);
    check(std::abs(deviation / std::sqrt(double(width)) - 1) < 0.05, "scores deviate by the root of the width");
  }
}

// ## Two masks
//
// A model that generates text must not see later tokens. So its attention is *causal*: token $i$ sees only the tokens
// $j \le i$. The other scores become $-\infty$ before the softmax, and $e^{-\infty} = 0$. Token 0 sees only itself,
// with the weight 1, so its output is $v_0$. One pass over the text then trains a prediction at every position.
//
// The texts of a batch have different lengths, so *padding* fills them up to one shape. No token may see padding: the
// mask is false in its columns. The program edits masked tokens; all other outputs stay the same, bit for bit.

Tensor every(int64_t n) { return ones({n, n}, DType::boolean); }

void check_masks(const Tensor& q, const Tensor& k, const Tensor& v) {
  const int64_t n = q.size(0);
  Tensor later_k = k.clone(), later_v = v.clone();
  later_k[-1] = 7, later_v[-1] = 7;
  const Tensor past = every(n).tril(), unpadded = arange(n) < n - 1;
  const Tensor before = matmul(weights(q, k, past), v), after = matmul(weights(q, later_k, past), later_v);
  check(all(eq(before, after).narrow(0, 0, n - 1)).item<bool>(), "the last token changes no output before it");
  const Tensor padded = matmul(weights(q, k, unpadded), v), other = matmul(weights(q, later_k, unpadded), later_v);
  check(all(eq(padded, other)).item<bool>(), "padding changes no output");
}

// ## Heads
//
// A layer of width $C$ has $H$ *heads*. Each has $D = C/H$ numbers per token and its own softmax, so heads can look
// for different things. Only shapes change. linnet's op takes [B, H, N, D] for B texts.

Tensor split_heads(const Tensor& x, int64_t heads) {  // [B, N, C] → [B, H, N, D]
  return x.reshape({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

void check_op(Generator& rng) {
  const Tensor x = randn({2, 10, 12}, rng, DType::float64), heads = split_heads(x, 3);
  Tensor padding = ones({2, 10}, DType::boolean);
  padding[{1, Slice{7, 10}}] = false;  // the second text has 7 tokens
  const Tensor out = softmax_attention(heads, heads, heads, {.causal = true, .padding_mask = padding});
  for (int64_t head = 0; head < 6; ++head) {
    const Tensor x_head = heads[{head / 3, head % 3}], seen = logical_and(every(10).tril(), padding[head / 3]);
    const Tensor difference = matmul(weights(x_head, x_head, seen), x_head) - out[{head / 3, head % 3}];
    check(difference.abs().max().item() < 1e-12, "softmax_attention computes the formula");
  }
}

// The example has six words. One random vector is a word's query, key and value. Equal words attend to each other.

int main() {
  Generator rng(3);
  show_scale(rng);
  check_op(rng);
  const std::vector<std::string> words{"to", "be", "or", "not", "to", "be"};
  const Tensor x = embedding(randn({4, 16}, rng, DType::float64), tensor({0, 1, 2, 3, 0, 1}, DType::int64));
  check_masks(x, x, x);
  const auto map = [&](const char* title, const Tensor& seen) {
    return examples::HeatMap{title, 6, 6, weights(x, x, seen).to_vector<double>(), words, words};
  };
  const examples::HeatMap full = map("all", every(6)), causal = map("causal", every(6).tril());
  examples::write_png({.title = "Weights of attention",
                       .x_label = "key",
                       .y_label = "query",
                       .columns = 3,
                       .maps = {full, causal, map("last two padded", arange(6) < 4)}},
                      "06_weights.png");
}
// <!-- output -->
// ![Weights of attention among six words: all, causal, and with padding](06_weights.png)
//
// ## Exercises
//
// 1. Show that attention without a mask does not know the order of the tokens: permute them, and look at the output.
// 2. How many operations does attention take for N tokens? How many weights do 8 heads have at N = 65,536?
// 3. Derive $\partial L/\partial V$, $\partial L/\partial S$ and $\partial L/\partial Q$ from
//    $\partial L/\partial O$.
