// Solutions to the exercises of chapter 1.

#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "tutorial/check.h"

using linnet::examples::check;

// The engine of the chapter, with `exp` and a division.

struct Node {
  double value;
  std::vector<std::pair<std::shared_ptr<Node>, double>> inputs = {};
  double grad = 0;
  bool seen = false;
};

using Number = std::shared_ptr<Node>;

Number node(double value, std::vector<std::pair<Number, double>> inputs = {}) {
  return std::make_shared<Node>(Node{value, std::move(inputs)});
}
Number operator+(const Number& a, const Number& b) { return node(a->value + b->value, {{a, 1}, {b, 1}}); }
Number operator*(const Number& a, const Number& b) {
  return node(a->value * b->value, {{a, b->value}, {b, a->value}});
}
Number operator/(const Number& a, const Number& b) {  // d(a/b)/da = 1/b and d(a/b)/db = −a/b²
  return node(a->value / b->value, {{a, 1 / b->value}, {b, -a->value / (b->value * b->value)}});
}
Number exp(const Number& a) {  // exp is its own derivative
  const double y = std::exp(a->value);
  return node(y, {{a, y}});
}

void sort(const Number& from, std::vector<Number>& sorted) {
  if (std::exchange(from->seen, true)) return;
  for (const auto& [input, derivative] : from->inputs) sort(input, sorted);
  sorted.push_back(from);
}

void backward(const Number& loss) {
  std::vector<Number> sorted;
  sort(loss, sorted);
  loss->grad = 1;
  for (auto at = sorted.rbegin(); at != sorted.rend(); ++at) {
    for (const auto& [input, derivative] : (*at)->inputs) input->grad += (*at)->grad * derivative;
  }
}

// 1. The loss goes to 0: there are two parameters and only one example, so the neuron can output exactly t.

void descend() {
  double w = 0.5, b = -0.2, loss = 0;
  const double x = 2, t = -0.4;
  for (int step = 0; step < 100; ++step) {
    const double y = std::tanh(w * x + b), dz = 2 * (y - t) * (1 - y * y);
    w -= 0.1 * dz * x;
    b -= 0.1 * dz;
    loss = std::pow(std::tanh(w * x + b) - t, 2);
  }
  fmt::print("1. after 100 steps the loss is {:.1e}\n", loss);
  check(loss < 1e-12, "100 steps make the loss 0, but for rounding");
}

// 2. The derivative of a sigmoid s is s(1 − s).

void differentiate_sigmoid() {
  const Number a = node(0.7), sigmoid = node(1) / (node(1) + exp(node(-1) * a));
  backward(sigmoid);
  fmt::print("2. sigmoid'(0.7) = {:.6f}\n", a->grad);
  check(std::abs(a->grad - sigmoid->value * (1 - sigmoid->value)) < 1e-15, "sigmoid' is s(1 - s)");
}

// 3. p = 4 is an input of both other products. The last one, q·p with q = p·p = 16, adds q = 16 to the gradient of p,
//    and p = 4 to that of q. Then q adds 4·p twice to the gradient of p, which is now 16 + 16 + 16 = 48 = 3p². Last,
//    p adds 48·a twice to the gradient of a: 96 + 96 = 192 = 6a⁵. If p came before q, it would hand on only its first
//    16, and a would get 16·a + 16·a = 64.

void differentiate_cube() {
  const Number a = node(2), p = a * a;
  backward(p * p * p);
  fmt::print("3. the gradient of p at 4 is {}, and that of a at 2 is {}\n", p->grad, a->grad);
  check(p->grad == 48 && a->grad == 192, "the gradient of a⁶ at 2 is 192");
}

int main() {
  descend();
  differentiate_sigmoid();
  differentiate_cube();
}
