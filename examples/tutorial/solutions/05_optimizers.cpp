// Solutions to the exercises of chapter 5.

#include <fmt/core.h>

#include <cmath>
#include <functional>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

using Step = std::function<void(Tensor& p, const Tensor& g)>;

/// Takes `steps` steps on the valley, scaled by `factor`, and returns the end point.
Tensor walk(Tensor p, int steps, const Step& step, double factor = 1) {
  p.set_requires_grad();
  for (int i = 0; i < steps; ++i) {
    p.set_grad({});
    backward(factor * (square(1 - p[0]) + 5 * square(p[1] - square(p[0]))));
    NoGrad no_grad;
    step(p, p.grad());
  }
  return p.detach();
}

Tensor start() { return tensor({-1.2, 1.3}, DType::float64); }
double loss_at(const Tensor& p) { return (square(1 - p[0]) + 5 * square(p[1] - square(p[0]))).item(); }

Step sgd(double lr) {
  return [lr](Tensor& p, const Tensor& g) { p -= lr * g; };
}

// 1. Below the bound, SGD swings across the valley less and less and converges to (1, 1). Above the bound it first
//    comes near (1, 1), but there the swings grow. They stop growing when they reach points where the curvature is
//    smaller. From then on SGD jumps to and fro between two points on the two sides of the valley.

void cross_the_bound() {
  const double bound =
      2 / (26 + std::sqrt(656.0));  // 2/c for the larger curvature: their sum is 52 and their product 20
  const Tensor near = tensor({0.9, 0.9}, DType::float64);
  const double below = loss_at(walk(near.clone(), 2000, sgd(0.98 * bound)));
  const double above = loss_at(walk(near.clone(), 2000, sgd(1.02 * bound)));
  fmt::print("1. SGD ends at the loss {:.1e} below the bound, and at {:.1e} above it\n", below, above);
  check(below < 1e-9 && above > 1e-4, "SGD converges below the bound only");
}

// 2. With the same learning rate, a momentum of 0.9 moves up to ten times as far along the valley.

void momentum_by_hand() {
  Tensor v = zeros({2}, DType::float64);
  const Tensor by_hand = walk(start(), 150, [&](Tensor& p, const Tensor& g) {
    v = 0.9 * v + g;
    p -= 0.005 * v;
  });
  Tensor p = start();
  nn::SGD optimizer({p.set_requires_grad()}, {.lr = 0.005, .momentum = 0.9});
  const Tensor by_linnet = walk(p, 150, [&](Tensor&, const Tensor&) { optimizer.step(); });
  check((by_hand - by_linnet).abs().max().item() < 1e-12, "momentum by hand takes the steps of nn::SGD");
  const Tensor without = walk(start(), 150, sgd(0.005));
  fmt::print("2. after 150 steps the loss is {:.1e} with momentum, {:.1e} without\n", loss_at(by_hand),
             loss_at(without));
  check(loss_at(by_hand) < loss_at(without) / 10, "momentum is faster with the same learning rate");
}

// 3. The paths of Adam and RMSprop: both divide the gradient by its own size, so a factor cancels, except in ε. SGD's
//    steps become 100 times as long, with momentum too, and the loss grows without bound.

template <class Optimizer>
Tensor end_of(const auto& config, int steps, double factor) {
  Tensor p = start();
  Optimizer optimizer({p.set_requires_grad()}, config);
  return walk(p, steps, [&](Tensor&, const Tensor&) { optimizer.step(); }, factor);
}

void scale_the_loss() {
  const auto adam = [](double factor) { return end_of<nn::Adam>(nn::AdamConfig{.lr = 0.1}, 150, factor); };
  const auto rmsprop = [](double factor) { return end_of<nn::RMSprop>(nn::RmsPropConfig{.lr = 0.03}, 150, factor); };
  const double of_adam = (adam(100) - adam(1)).abs().max().item();
  const double of_rmsprop = (rmsprop(100) - rmsprop(1)).abs().max().item();
  fmt::print("3. with 100·f the end of Adam moves by {:.0e}, that of RMSprop by {:.0e}\n", of_adam, of_rmsprop);
  check(of_adam < 1e-4 && of_rmsprop < 1e-4, "the paths of Adam and RMSprop do not depend on a factor of the loss");
  for (const nn::SgdConfig& config : {nn::SgdConfig{.lr = 0.02}, nn::SgdConfig{.lr = 0.005, .momentum = 0.9}}) {
    const Tensor once = end_of<nn::SGD>(config, 1, 1) - start(), scaled = end_of<nn::SGD>(config, 1, 100) - start();
    check((scaled / once - 100).abs().max().item() < 1e-9, "the first step of SGD is 100 times as long");
    check(!(loss_at(end_of<nn::SGD>(config, 20, 100)) < 1e100), "the loss of SGD grows without bound");
  }
}

int main() {
  cross_the_bound();
  momentum_by_hand();
  scale_the_loss();
}
