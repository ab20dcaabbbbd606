// Solutions to the exercises of chapter 11.

#include <fmt/core.h>

#include <cmath>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// 1. The result is 1/(1 − r) with probability 1 − r, and 0 otherwise. The mean is 1, the mean of the squares is 1/(1
//    − r), and so the variance is 1/(1 − r) − 1 = r/(1 − r).

void moments() {
  Generator rng(1);
  const Tensor y = dropout(ones({1000000}, DType::float64), 0.2, rng);
  const double mean = y.mean().item(), variance = y.var().item();
  fmt::print("1. mean {:.4f} and variance {:.4f}; derived: 1 and {:.4f}\n", mean, variance, 0.2 / 0.8);
  check(std::abs(mean - 1) < 0.003 && std::abs(variance - 0.25) < 0.003, "the moments are those derived");
}

// 2. With the mask m, y = x ∘ m/(1 − r), so dL/dx = 2y ∘ m/(1 − r) = 2x ∘ m/(1 − r)². The key determines m.

void gradient_from_key() {
  Generator rng(2), copy = rng, data(3);
  const RandomKey key = copy.next();
  const Tensor x = randn({1000}, data, DType::float64).set_requires_grad();
  backward(dropout(x, 0.5, rng).square().sum());
  Tensor mask = zeros({1000}, DType::float64);
  for (uint64_t i = 0; i < 1000; ++i)
    mask.mutable_data<double>()[i] = random_word(key, i) < keep_threshold(0.5) ? 1 : 0;
  check((2 * x.detach() * mask / 0.25 - x.grad()).abs().max().item() < 1e-12, "the gradient follows from the key");
  fmt::print("2. the gradient follows from x and the key\n");
}

// 3. The masks are equal: both layers drop the same elements. Two draws from one generator have different streams.
//    They agree only by chance, in 0.2² + 0.8² = 68 % of the elements.

void copied_generators() {
  Generator one(4), copy = one;
  const Tensor x = ones({100000});
  const Tensor first = dropout(x, 0.2, one), copied = dropout(x, 0.2, copy), second = dropout(x, 0.2, one);
  const auto agreement = [&](const Tensor& other) { return eq(first, other).to(DType::float64).mean().item(); };
  fmt::print("3. equal places: {:.0f} % with a copy, {:.0f} % with the next draw\n", 100 * agreement(copied),
             100 * agreement(second));
  check(agreement(copied) == 1 && std::abs(agreement(second) - 0.68) < 0.01, "copies draw the same masks");
}

int main() {
  moments();
  gradient_from_key();
  copied_generators();
}
