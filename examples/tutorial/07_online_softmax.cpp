// # 7. Attention without the N×N array
//
// For 8 heads at 65,536 tokens, the N×N weights of attention take 128 GiB in float32. The output is only N×D. This
// chapter computes it from tiles of the weights, of which one exists at a time (*FlashAttention*, Dao et al. 2022).

#include <fmt/core.h>

#include <cmath>

#include <linnet/linnet.h>

#include "support/plot/plot.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// ## A softmax in one pass
//
// A softmax divides $e^{s_j}$ by the sum of all of them. Since $e^{1000}$ overflows, one subtracts the largest score
// $m$ first: $e^{s_j - m} / \sum_l e^{s_l - m}$ is the same. This seems to need all scores before the first output.
// It does not: keep $m$, the sum $z = \sum_l e^{s_l - m}$ and $a = \sum_l e^{s_l - m} v_l$ of the keys so far. If a
// new tile of keys has a larger maximum $m'$, multiply $z$ and $a$ by $e^{m - m'}$. This gives the values that they
// would have with $m'$ from the beginning. At the end the output is $a / z$.

constexpr int64_t kTile = 64;  // N is a multiple of it here

struct Output {
  Tensor o, l;  // [N, D]; [N, 1], the log of the sum of exp(scores); backward recomputes the weights from it
};

Output tiled_attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  const double scale = 1 / std::sqrt(double(q.size(1)));
  Output out{zeros_like(q), Tensor::empty({q.size(0), 1}, q.dtype())};
  for (int64_t i = 0; i < q.size(0); i += kTile) {
    const Tensor q_tile = q.narrow(0, i, kTile);
    Tensor m = full({kTile, 1}, -INFINITY, q.dtype()), z = zeros({kTile, 1}, q.dtype()), a = zeros_like(q_tile);
    for (int64_t j = 0; j < k.size(0); j += kTile) {
      const Tensor s = matmul(q_tile, k.narrow(0, j, kTile).t()) * scale;  // the tile of scores
      const Tensor new_m = maximum(m, s.max({1}, true)), shrink = exp(m - new_m), p = exp(s - new_m);
      z = z * shrink + p.sum(1, true);
      a = a * shrink + matmul(p, v.narrow(0, j, kTile));
      m = new_m;
    }
    out.o.narrow(0, i, kTile).copy_(a / z);
    out.l.narrow(0, i, kTile).copy_(m + log(z));
  }
  return out;
}

// ## Backward, tile by tile
//
// With $G = \partial L/\partial O$, exercise 3 of chapter 6 finds
//
// $$\frac{\partial L}{\partial V} = P^\top G, \qquad \frac{\partial L}{\partial s_{ij}} = p_{ij}\,(G_i v_j - G_i
// o_i)$$
//
// where $G_i v_j$ and $G_i o_i$ are dot products. $G_i o_i$ already contains the sum over a row of $P$, so a tile
// needs no other tile. Its weights are recomputed as $p_{ij} = e^{s_{ij} - l_i}$, with the $l_i = m_i + \log z_i$
// that forward saved. So backward computes the scores a second time: it trades operations for memory.

struct Gradients {
  Tensor q, k, v;
};

Gradients tiled_backward(const Tensor& q, const Tensor& k, const Tensor& v, const Output& out, const Tensor& g) {
  const double scale = 1 / std::sqrt(double(q.size(1)));
  const Tensor g_o = (g * out.o).sum(1, true);  // G_i·o_i
  Gradients grad{zeros_like(q), zeros_like(k), zeros_like(v)};
  for (int64_t i = 0; i < q.size(0); i += kTile) {
    for (int64_t j = 0; j < k.size(0); j += kTile) {
      const auto rows = [&](const Tensor& x) { return x.narrow(0, i, kTile); };
      const auto cols = [&](const Tensor& x) { return x.narrow(0, j, kTile); };
      const Tensor p = exp(matmul(rows(q), cols(k).t()) * scale - rows(out.l));
      const Tensor s = p * (matmul(rows(g), cols(v).t()) - rows(g_o)) * scale;  // dL/ds, times the scale
      cols(grad.v) += matmul(p.t(), rows(g));
      rows(grad.q) += matmul(s, cols(k));
      cols(grad.k) += matmul(s.t(), rows(q));
    }
  }
  return grad;
}

/// The peak memory, in MiB, that `function` allocates on top of what is already in use.
template <class Function>
double peak_of(const Function& function) {
  reset_peak_memory();
  const int64_t before = memory_stats().live;
  function();
  return double(memory_stats().peak - before) / (1 << 20);
}

int main() {
  Generator rng(1);
  examples::Series whole{.label = "N×N array"}, tiled{.label = "tiles"};
  for (const int64_t n : {256, 512, 1024, 2048}) {
    const auto leaf = [&] { return randn({n, 32}, rng, DType::float64).set_requires_grad(); };
    const Tensor q = leaf(), k = leaf(), v = leaf(), g = randn({n, 32}, rng, DType::float64);
    whole.y.push_back(peak_of([&] { backward(matmul(softmax(matmul(q, k.t()) / std::sqrt(32.0), 1), v), {g}); }));
    NoGrad no_grad;
    Gradients grad;
    tiled.y.push_back(peak_of([&] { grad = tiled_backward(q, k, v, tiled_attention(q, k, v), g); }));
    const Tensor differences = concat({grad.q - q.grad(), grad.k - k.grad(), grad.v - v.grad()}, 0);
    check(differences.abs().max().item() < 1e-12, "tiles find the gradients of the whole array");
    for (examples::Series* series : {&whole, &tiled}) series->x.push_back(double(n));
    fmt::print("N = {:4}: {:6.1f} MiB with the array, {:3.1f} MiB in tiles\n", n, whole.y.back(), tiled.y.back());
  }
  check(tiled.y[3] < 5 * tiled.y[1], "memory of tiles grows with N, not with N²");
  examples::write_png({"Memory, forward and backward", "", "tokens N", "MiB", true, true, {whole, tiled}},
                      "07_memory.png");
}
// <!-- output -->
// linnet's `softmax_attention` works in the same way, in one kernel (`ops/cpu/attention/attention.cpp`).
//
// ![Memory against tokens: with the array, and in tiles](07_memory.png)
//
// ## Exercises
//
// 1. Make it causal. Which tiles need a mask, which can be skipped, and how much work remains?
// 2. What does the output become if $m$ is left at 0, for scores around 1,000? And for scores around 1?
// 3. Process two halves of the keys separately and merge their results $(m, z, a)$. Does the order matter?
