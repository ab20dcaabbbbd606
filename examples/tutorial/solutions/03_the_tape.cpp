// Solutions to the exercises of chapter 3.

#include <fmt/core.h>

#include <cmath>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// 1. w takes n² entries, and the loss starts with 1. Each of the n² elements of y takes 1 entry to start with, 3 for
//    each of its n terms (x, the product, the sum), and 2 for its square and the sum of the loss: n² + 1 + n²·(3n +
//    3).

void count_entries() {
  const int64_t n = 64, entries = n * n + 1 + n * n * (3 * n + 3);
  fmt::print("1. n = 64: {} entries\n", entries);
  check(entries == 802817, "the chapter prints the same number");
}

// 2. `sort` calls itself once for each node of a chain, and each call uses some of the stack, which has at most 8 MiB
//    on most systems. linnet's backward is a loop, so only memory limits the depth.

void walk_deep_chain() {
  const Tensor w = scalar(1, DType::float64).set_requires_grad();
  Tensor y = w;
  for (int i = 0; i < 100000; ++i) y = y * 1.00001;
  backward(y);
  fmt::print("2. the gradient of 100,000 factors is {:.6f}, and e is {:.6f}\n", w.grad().item(), std::exp(1.0));
  check(std::abs(w.grad().item() - std::pow(1.00001, 100000)) < 1e-9, "the gradient is the product of all factors");
}

// 3. With y = tanh x: y' = 1 − y², y'' = −2y·y' and y''' = −2y'² − 2y·y'' = (1 − y²)(6y² − 2).

void third_derivative() {
  const Tensor x = scalar(0.5, DType::float64).set_requires_grad();
  Tensor derivative = tanh(x);
  for (int i = 0; i < 3; ++i) derivative = grad({derivative}, {x}, {.create_graph = true})[0];
  const double y = std::tanh(0.5), formula = (1 - y * y) * (6 * y * y - 2);
  fmt::print("3. tanh'''(0.5) = {:.12f}, by the formula {:.12f}\n", derivative.item(), formula);
  check(std::abs(derivative.item() - formula) < 1e-12, "the third derivative is that of the formula");
}

int main() {
  count_entries();
  walk_deep_chain();
  third_derivative();
}
