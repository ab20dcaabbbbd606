// # 5. Optimizers on a surface that you can see
//
// An *optimizer* decides from the gradient how far each parameter moves. Here the loss has only two parameters, so
// that we can watch four optimizers at work:
//
// $$f(x, y) = (1 - x)^2 + 5\,(y - x^2)^2$$
//
// It is a curved valley along $y = x^2$, steep across and flat along. Its lowest point is $(1, 1)$.

#include <fmt/core.h>

#include <cmath>
#include <functional>

#include <linnet/linnet.h>

#include "support/plot/plot.h"
#include "tutorial/check.h"
using namespace linnet;
using examples::check;

Tensor valley(const Tensor& p) { return square(1 - p[0]) + 5 * square(p[1] - square(p[0])); }

struct Path {
  std::string name;
  Tensor p = tensor({-1.2, 1.3}, DType::float64).set_requires_grad();
  std::vector<double> x = {}, y = {}, loss = {};
};

void walk(Path& path, const std::function<void(Tensor& p, const Tensor& g)>& step) {
  for (int i = 0; i < 150; ++i) {
    path.p.set_grad({});
    const Tensor loss = valley(path.p);
    backward(loss);
    path.x.push_back(path.p[0].item()), path.y.push_back(path.p[1].item()), path.loss.push_back(loss.item());
    NoGrad no_grad;
    step(path.p, path.p.grad());
  }
}

// ## Four rules
//
// In each step, for each parameter $p$ with the gradient $g$, and with the learning rate $\eta$:
//
// - **SGD** steps down the slope: $p \leftarrow p - \eta g$.
// - **Momentum** steps by a velocity: $v \leftarrow \mu v + g$ and $p \leftarrow p - \eta v$. Steps back and forth
//   across the valley cancel in $v$. Steps along it add up, to $1/(1-\mu)$ times their size.
// - **RMSprop** divides by the recent size of the gradients: $s \leftarrow \alpha s + (1-\alpha) g^2$ and
//   $p \leftarrow p - \eta g / (\sqrt{s} + \epsilon)$. So all parameters move at about the same speed.
// - **Adam** does both, with moving averages $m$ of $g$ and $s$ of $g^2$. Both start at 0, so they are too small at
//   first: the weights $(1-\beta)\beta^k$ of $t$ gradients sum to $1 - \beta^t$. Adam divides by that:
//   $p \leftarrow p - \eta\,\hat m / (\sqrt{\hat s} + \epsilon)$, where $\hat m = m / (1 - \beta_1^t)$ and
//   $\hat s = s / (1 - \beta_2^t)$. Otherwise the first step would be $0.1/\sqrt{0.001} = 3.2$ times too long.

Tensor adam_by_hand(double lr) {
  Path path{"Adam by hand"};
  Tensor m = zeros({2}, DType::float64), s = zeros({2}, DType::float64);
  int t = 0;
  walk(path, [&](Tensor& p, const Tensor& g) {
    ++t;
    m = 0.9 * m + 0.1 * g;
    s = 0.999 * s + 0.001 * square(g);
    p -= lr * (m / (1 - std::pow(0.9, t))) / (sqrt(s / (1 - std::pow(0.999, t))) + 1e-8);
  });
  return path.p;
}

// ## How large may a step be?
//
// Near the minimum the loss is a parabola in each direction, $\frac{1}{2} c\,d^2$ at distance $d$. SGD multiplies $d$
// by $1 - \eta c$, so it needs $\eta < 2/c$ for the *largest* curvature $c$. The *smallest* decides the time: about
// $1/(\eta c)$ steps for each factor of $e$. Both are eigenvalues of the Hessian, the matrix of second derivatives.

void print_curvatures() {
  const Tensor h = hessian(valley, tensor({1, 1}, DType::float64));
  const double half = h.trace().item() / 2, determinant = (h[{0, 0}] * h[{1, 1}] - square(h[{0, 1}])).item();
  const double root = std::sqrt(half * half - determinant);
  fmt::print("curvatures at (1, 1): {:.2f} and {:.3f}, so SGD's learning rate must be below {:.5f} there\n",
             half + root, half - root, 2 / (half + root));
}

// The picture shows contours of equal loss $c$. Both terms of $f$ are squares, so the points of a contour are
// $x = 1 + \sqrt{c} \cos a$ and $y = x^2 + \sqrt{c/5} \sin a$, for every angle $a$.

examples::Series contour(double c) {
  examples::Series line{.label = fmt::format("f = {}", c), .color = 6, .light = true};
  for (double a = 0; a < 6.3; a += 0.01) {
    const double x = 1 + std::sqrt(c) * std::cos(a), y = x * x + std::sqrt(c / 5) * std::sin(a);
    line.x.push_back(x), line.y.push_back(x < -1.6 || y > 1.9 ? NAN : y);  // NAN leaves a gap
  }
  return line;
}

int main() {
  print_curvatures();
  std::vector<Path> paths{{"SGD"}, {"momentum"}, {"RMSprop"}, {"Adam"}};
  nn::SGD sgd({paths[0].p}, {.lr = 0.02}), momentum({paths[1].p}, {.lr = 0.005, .momentum = 0.9});
  nn::RMSprop rmsprop({paths[2].p}, {.lr = 0.03});
  nn::Adam adam({paths[3].p}, {.lr = 0.1});
  nn::Optimizer* optimizers[] = {&sgd, &momentum, &rmsprop, &adam};
  std::vector<examples::Series> lines;
  for (size_t i = 0; i < 4; ++i) {
    walk(paths[i], [&](Tensor&, const Tensor&) { optimizers[i]->step(); });
    const Path& path = paths[i];
    fmt::print("{:9} loss {:.1e} after 50 steps, {:.1e} after 150\n", path.name, path.loss[50], path.loss[149]);
    lines.push_back({.label = path.name, .x = path.x, .y = path.y});
  }
  check((adam_by_hand(0.1) - paths[3].p).abs().max().item() < 1e-12, "Adam by hand takes the steps of nn::Adam");
  for (const double c : {0.02, 0.2, 1.0, 3.0, 6.0}) lines.push_back(contour(c));
  examples::write_png({"Four optimizers in one valley", "150 steps from (−1.2, 1.3)", "x", "y", false, false, lines},
                      "05_paths.png");
}
// <!-- output -->
// ![The paths of four optimizers on the surface](05_paths.png)
//
// ## Exercises
//
// 1. From (0.9, 0.9), take 2,000 steps of SGD just below and just above the printed bound. What happens?
// 2. Write momentum by hand, and check it against `nn::SGD`. How much faster is it here with the same learning rate?
// 3. Multiply $f$ by 100. Which of the four paths do not change, and why?
