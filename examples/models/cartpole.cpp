/// A policy gradient learns to balance a pole on a cart. It plays episodes, and makes those actions likelier that
/// turned out better than expected.
///
///     build/bin/cartpole         # until the mean return of 100 episodes is 475, which counts as solved
///     build/bin/cartpole 10 7    # at most 10 updates, and seed 7
///
/// Draws cartpole.png: the returns. Shapes: B episodes are played side by side, and T is the length of the longest.
///
/// Source: Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement learning"
/// (REINFORCE), with a baseline that is also learned.

#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numbers>
#include <vector>

#include <linnet/linnet.h>

#include "support/plot/plot.h"
using namespace linnet;

constexpr int64_t kEpisodes = 100;  // between two updates
constexpr int64_t kMaxSteps = 500;  // of an episode; each step has a reward of 1
constexpr double kSolved = 475;
constexpr double kDiscount = 0.99;

/// The environment: carts on tracks. Each cart has a hinged pole, which falls over if the cart does not balance it.
/// It is the environment of Barto, Sutton & Anderson 1983, with the numbers of Gym's CartPole-v1.
struct CartPoles {
  Tensor state;  // [B, 4]: the cart's position and speed, the pole's angle and how fast it turns
  Tensor going;  // [B, 1]: 1 until the episode ends, then 0

  CartPoles(int64_t count, Generator& rng) : state(0.1 * rand({count, 4}, rng) - 0.05), going(ones({count, 1})) {}

  /// Pushes each cart for 0.02 s, to the left where `action` [B, 1] is 0 and to the right where it is 1.
  void step(const Tensor& action) {
    constexpr double kGravity = 9.8, kMass = 1.1, kPoleMass = 0.1, kHalfLength = 0.5;  // kMass: cart and pole
    const std::vector<Tensor> parts = state.chunk(4, 1);
    const Tensor &speed = parts[1], &angle = parts[2], &turn = parts[3];
    const Tensor force = 20 * action.to(DType::float32) - 10;
    const Tensor push = (force + kPoleMass * kHalfLength * square(turn) * sin(angle)) / kMass;
    const Tensor turn_rate = (kGravity * sin(angle) - cos(angle) * push) /
                             (kHalfLength * (4.0 / 3 - kPoleMass * square(cos(angle)) / kMass));
    const Tensor speed_rate = push - kPoleMass * kHalfLength * turn_rate * cos(angle) / kMass;
    state = state + 0.02 * concat({speed, speed_rate, turn, turn_rate}, 1);
    const Tensor limits = tensor({2.4, INFINITY, 12 * std::numbers::pi / 180, INFINITY});
    going = going * (abs(state) <= limits).all({1}, KeepDim(true)).to(DType::float32);
    state = state * going;  // an ended episode stays at 0
  }
};

struct Agent : nn::Module {
  explicit Agent(Generator& rng) : Module(rng) {}
  nn::Linear policy1{*this, "policy1", 4, 64}, policy2{*this, "policy2", 64, 2};
  nn::Linear value1{*this, "value1", 4, 64}, value2{*this, "value2", 64, 1};

  /// States [..., 4] → the logits of the actions, [..., 2], and the expected returns, [..., 1], which are the
  /// baseline
  Tensor logits(const Tensor& states) { return policy2(tanh(policy1(states))); }
  Tensor values(const Tensor& states) { return value2(tanh(value1(states))); }
};

struct Episodes {
  Tensor states, actions, rewards;  // [T, B, 4], [T, B, 1], [T, B, 1]; after the end of an episode, rewards are 0
};

/// Plays kEpisodes episodes. Actions are drawn by their probabilities, or the likeliest action is taken each time.
Episodes play(Agent& agent, Generator& rng, bool likeliest = false) {
  const NoGrad no_grad;
  CartPoles carts(kEpisodes, rng);
  std::vector<Tensor> states, actions, rewards;
  for (int64_t step = 0; step < kMaxSteps && carts.going.max().item() > 0; ++step) {
    const Tensor logits = agent.logits(carts.state);
    states.push_back(carts.state);
    rewards.push_back(carts.going);
    actions.push_back(likeliest ? argmax(logits, 1, KeepDim(true)) : multinomial(softmax(logits, 1), 1, rng));
    carts.step(actions.back());
  }
  return {stack(states), stack(actions), stack(rewards)};
}

int main(int argc, char** argv) try {
  const int64_t updates = argc > 1 ? std::atoll(argv[1]) : 200;
  Generator rng(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1337);
  Agent agent(rng);
  nn::Adam optimizer(agent.parameters(), {.lr = 1e-2});
  examples::Series mean{.label = "mean"}, smallest{.label = "smallest"};
  for (int64_t update = 1; update <= updates; ++update) {
    const auto [states, actions, rewards] = play(agent, rng);
    const Tensor returns = rewards.sum(0);
    mean.y.push_back(returns.mean().item());
    smallest.y.push_back(returns.min().item());
    mean.x.push_back(static_cast<double>(update * kEpisodes));
    std::cout << "episode " << mean.x.back() << ": mean return " << mean.y.back() << "\n" << std::flush;
    if (mean.y.back() >= kSolved) break;

    // The discounted return from each step on, times 1 − kDiscount, so that it is at most 1.
    Tensor ahead = (1 - kDiscount) * rewards;
    for (int64_t step = rewards.size(0) - 2; step >= 0; --step) ahead[step] += kDiscount * ahead[step + 1];
    const Tensor steps = rewards.sum(), error = rewards * (ahead - agent.values(states));
    const Tensor variance = square(error).sum() / steps;  // the loss of the baseline
    const Tensor advantage = (error / sqrt(variance)).detach();
    const Tensor log_probability = log_softmax(agent.logits(states), -1).gather(-1, actions);
    backward(variance - (advantage * log_probability).sum() / steps);
    optimizer.step();
    optimizer.zero_grad();
  }
  smallest.x = mean.x;
  std::cout << "100 new episodes, with the likeliest action each time: mean return "
            << play(agent, rng, true).rewards.sum(0).mean().item() << "\n";
  examples::write_png({.title = "A policy gradient balances a pole",
                       .subtitle = "of the 100 episodes before each update",
                       .x_label = "episodes",
                       .y_label = "return",
                       .series = {mean, smallest}},
                      "cartpole.png");
} catch (const std::exception& error) {
  std::cerr << "cartpole: " << error.what() << "\n";
  return 1;
}
