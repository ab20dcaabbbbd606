// # 1. A derivative by hand
//
// Training a model means changing its numbers, the *parameters*, until the *loss* is small, a number that measures
// how wrong the model is. Its derivative with respect to a parameter says which way to change the parameter. This
// chapter computes derivatives in three ways: by hand, by a finite difference, and by 40 lines of code that apply the
// chain rule for us, an *automatic differentiation engine*.

#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "support/plot/plot.h"
#include "tutorial/check.h"
using namespace linnet::examples;

// ## By hand
//
// Our model is one neuron. It takes $x$ and computes $y = \tanh(z)$ with $z = wx + b$. Its target is $t$, so the loss
// is $L = (y - t)^2$. The chain rule multiplies the derivatives along the path from the loss back to $w$. Since
// $\tanh'(z) = 1 - \tanh^2(z) = 1 - y^2$,
//
// $$\frac{\partial L}{\partial w} = \frac{dL}{dy}\,\frac{dy}{dz}\,\frac{\partial z}{\partial w} =
// 2(y-t)\,(1-y^2)\,x$$
//
// For $b$ the last factor is 1 instead of $x$. All these derivatives together are called the *gradient*.

double loss_of(double w, double b, double x, double t) { return std::pow(std::tanh(w * x + b) - t, 2); }

std::pair<double, double> gradient_by_hand(double w, double b, double x, double t) {
  const double y = std::tanh(w * x + b);
  const double dz = 2 * (y - t) * (1 - y * y);  // dL/dz, which both derivatives need
  return {dz * x, dz};
}

// ## By a difference
//
// A derivative is the slope of a curve. We can estimate it by a small step to each side, $\frac{L(w+h)-L(w-h)}{2h}$.
// This is slow, since every parameter needs two more evaluations of the loss. Even in float64 (`double`), which has
// 16 digits, only about ten are right: the formula is wrong by about $h^2 = 10^{-10}$, and rounding by $10^{-16}/h$.
// But it needs no derivation, so it is the usual way to check a gradient that was derived by hand.

double gradient_by_difference(double w, double b, double x, double t) {
  const double h = 1e-5;
  return (loss_of(w + h, b, x, t) - loss_of(w - h, b, x, t)) / (2 * h);
}

// ## By a program
//
// Every number that we compute becomes a `Node`. A node stores its inputs and, for each of them, the derivative of
// its own value with respect to that input. For a product $a \cdot b$ these derivatives are $b$ and $a$.

struct Node {
  double value;
  std::vector<std::pair<std::shared_ptr<Node>, double>> inputs = {};
  double grad = 0;  // dL/dvalue, after backward
  bool seen = false;
};

using Number = std::shared_ptr<Node>;  // a Python variable is such a shared pointer too

Number number(double value) { return std::make_shared<Node>(Node{value}); }
Number operator+(const Number& a, const Number& b) {
  return std::make_shared<Node>(Node{a->value + b->value, {{a, 1}, {b, 1}}});
}
Number operator*(const Number& a, const Number& b) {
  return std::make_shared<Node>(Node{a->value * b->value, {{a, b->value}, {b, a->value}}});
}
Number tanh(const Number& a) {
  const double y = std::tanh(a->value);
  return std::make_shared<Node>(Node{y, {{a, 1 - y * y}}});
}

// `backward` starts with $dL/dL = 1$ and goes back. For each input, a node multiplies its own gradient by the stored
// derivative and adds the product to the input's gradient. `backward` must visit a node after all nodes that use it.
// Otherwise the node would pass on only a part of its gradient. So `sort` lists each node after its inputs, and
// `backward` goes through the list from its end. `seen` is never reset, so `backward` works once for a graph.

void sort(const Number& node, std::vector<Number>& sorted) {
  if (std::exchange(node->seen, true)) return;
  for (const auto& [input, derivative] : node->inputs) sort(input, sorted);
  sorted.push_back(node);
}

void backward(const Number& loss) {
  std::vector<Number> sorted;
  sort(loss, sorted);
  loss->grad = 1;
  for (auto node = sorted.rbegin(); node != sorted.rend(); ++node)
    for (const auto& [input, derivative] : (*node)->inputs) input->grad += (*node)->grad * derivative;
}

// All three must agree. The picture shows the loss as a function of $w$, and a line with the slope that we found.

int main() {
  const double w = 0.5, b = -0.2, x = 2, t = -0.4, by_difference = gradient_by_difference(w, b, x, t);
  const auto [by_hand, by_hand_b] = gradient_by_hand(w, b, x, t);
  const Number nw = number(w), nb = number(b), error = tanh(nw * number(x) + nb) + number(-t);
  backward(error * error);  // error is used twice, so it gets a sum of two terms
  fmt::print("dL/dw by hand        {:.12f}\n      by difference  {:.12f}\n", by_hand, by_difference);
  fmt::print("      by the engine  {:.12f}\n", nw->grad);
  fmt::print("dL/db by hand        {:.12f}\n      by the engine  {:.12f}\n", by_hand_b, nb->grad);
  check(std::abs(by_hand - by_difference) < 1e-8, "the difference has the derivative by hand");
  check(std::abs(by_hand - nw->grad) + std::abs(by_hand_b - nb->grad) < 1e-12, "the engine has both");
  Series curve{.label = "loss"}, line{.label = "slope dL/dw", .x = {0.2, w, 0.8}};
  for (double at = -1.5; at < 1.5; at += 0.02) curve.x.push_back(at), curve.y.push_back(loss_of(at, b, x, t));
  for (const double at : line.x) line.y.push_back(loss_of(w, b, x, t) + by_hand * (at - w));
  write_png({.title = "One neuron", .x_label = "w", .y_label = "L", .series = {curve, line}}, "01_slope.png");
}
// <!-- output -->
// ![The loss of one neuron against w, and its slope at w = 0.5](01_slope.png)
//
// ## Exercises
//
// 1. Take 100 steps $w \leftarrow w - 0.1\,\partial L/\partial w$, and the same for $b$. How small does the loss get?
// 2. Add `exp` and a division to the engine, and build a sigmoid $1/(1 + e^{-a})$ from them.
// 3. Let $p = a \cdot a$ with $a = 2$. Why does the engine find 192 for $p \cdot p \cdot p$, though no line says
//    $6a^5$? What would it find if `backward` came to $p$ before it came to $p \cdot p$?
