// Solutions to the exercises of chapter 15.

#include <fmt/core.h>

#include <cmath>

#include <linnet/linnet.h>

#include "tutorial/check.h"
using namespace linnet;
using examples::check;

// 1. For x > 0 the derivative is ((1 + x) − x)/(1 + x)², and by symmetry it is 1/(1 + |x|)² everywhere.

Tensor softsign(const Tensor& x, Where where = {}) {
  Op op("softsign", where, {x});
  op.floating_dtype();
  const Tensor in = x.detach();
  return op.record(in / (1 + abs(in)), [x = op.save(x)](const Tensor& g) { return Grads{g / square(1 + abs(x()))}; });
}

void check_softsign(Generator& rng) {
  const Tensor x = (randn({10}, rng, DType::float64) + 3).set_requires_grad();
  check(gradcheck([](const auto& in) { return 2 * softsign(in[0]) + softsign(-in[0]); }, {x}),
        "both signs are right");
  check(gradgradcheck([](const auto& in) { return softsign(in[0]); }, {x}), "and second derivatives");
  fmt::print("1. softsign's derivatives agree with differences\n");
}

// 2. At the start scores are near 0, so each weight is near 1/2. An output is then half the sum of N values instead
//    of about their mean: N/2 times as large. So the scale of the next layer's input depends on the length of the
//    text.

void without_log(Generator& rng) {
  const int64_t n = 64;
  const Tensor scores = 0.1 * randn({n, n}, rng), v = ones({n, 1});
  const double with = matmul(sigmoid(scores - std::log(double(n))), v).mean().item();
  const double without = matmul(sigmoid(scores), v).mean().item();
  fmt::print("2. N = 64: the weights sum to {:.1f} with log N, {:.1f} without\n", with, without);
  check(std::abs(with - 1) < 0.1 && std::abs(without - 32) < 1, "without log N the weights sum to N/2");
}

// 3. The state is the keys and values of all tokens so far: a new query meets each of them, because the sigmoid does
//    not factorise. So the state grows by 2·D numbers per token and head, as for softmax attention. This is one head.

struct State {
  std::vector<Tensor> keys, values;
};

Tensor step(State& state, const Tensor& q, const Tensor& k, const Tensor& v) {  // [D] each
  state.keys.push_back(k), state.values.push_back(v);
  const double tokens = double(state.keys.size());
  const Tensor scores = matmul(stack(state.keys), q) / std::sqrt(double(q.size(0)));
  return matmul(sigmoid(scores - std::log(tokens)), stack(state.values));
}

void check_steps(Generator& rng) {
  const auto rows = [&] { return randn({9, 4}, rng, DType::float64); };
  const Tensor q = rows(), k = rows(), v = rows(), seen = arange(1, 10, 1, DType::float64).unsqueeze(1);
  const Tensor whole = matmul(tril(sigmoid(matmul(q, k.t()) / 2 - log(seen))), v);
  State state;
  std::vector<Tensor> rows_of_steps;
  for (int64_t i = 0; i < 9; ++i) rows_of_steps.push_back(step(state, q[i], k[i], v[i]));
  const double largest = (stack(rows_of_steps) - whole).abs().max().item();
  fmt::print("3. after 9 steps the state has {} keys and values\n", state.keys.size() + state.values.size());
  check(largest < 1e-14, "steps compute the sequence form");
}

int main() {
  Generator rng(1);
  check_softsign(rng);
  without_log(rng);
  check_steps(rng);
}
