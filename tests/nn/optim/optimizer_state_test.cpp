/// The state of optimizers: resumed runs, what the state holds, and states that do not fit.

#include <doctest/doctest.h>

#include <limits>

#include <linnet/linnet.h>

#include "tests/nn/optim/fixed_gradients.h"
#include "tests/support/leaf.h"

using namespace linnet;
using linnet::test::leaf;
using linnet::test::run;

namespace {

/// Checks that a run that goes on with another optimizer's state is the uninterrupted one, bit for bit. The optimizer
/// that goes on was built with other rates and decays.
template <class Optimizer, class Config>
void check_resumed(const Config& config) {
  const auto start = [] {
    return std::vector<Tensor>{tensor({1, 2, 3}, {1, 3}, DType::float64).set_requires_grad(),
                               tensor({-1}, {1, 1}, DType::float64).set_requires_grad()};
  };
  const auto groups = [](const std::vector<Tensor>& p, double of_second) {
    return std::vector<nn::ParameterGroup>{{.parameters = {p[0]}},
                                           {.parameters = {p[1]}, .lr = of_second, .weight_decay = of_second}};
  };
  const std::vector<Tensor> whole = start(), first = start(), second = start();
  Optimizer uninterrupted(groups(whole, 0.03), config);
  run(uninterrupted, whole, 0, 20);

  Optimizer before(groups(first, 0.03), config);
  run(before, first, 0, 7);
  Config other = config;
  other.lr = other.weight_decay = 0.5;
  Optimizer after(groups(second, 0.7), other);
  for (size_t i = 0; i < first.size(); ++i) {
    const NoGrad guard;
    Tensor(second[i]).copy_(first[i]);
  }
  before.set_lr(0.3, 0);
  after.load_state(before.state());
  CHECK(*after.groups()[0].lr == 0.3);
  for (size_t g = 0; g < 2; ++g) CHECK(*after.groups()[g].weight_decay == *before.groups()[g].weight_decay);
  after.set_lr(config.lr, 0);
  run(after, second, 7, 20);
  for (size_t i = 0; i < whole.size(); ++i) CHECK(whole[i].to_vector<double>() == second[i].to_vector<double>());
}

}  // namespace

TEST_CASE("optimizers: a resumed run is the uninterrupted one to the bit") {
  check_resumed<nn::SGD>(nn::SgdConfig{.lr = 0.1});
  check_resumed<nn::SGD>(nn::SgdConfig{.lr = 0.1, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.2});
  check_resumed<nn::Adam>(nn::AdamConfig{.lr = 0.1});
  check_resumed<nn::AdamW>(nn::AdamWConfig{.lr = 0.1});
  check_resumed<nn::RMSprop>(nn::RmsPropConfig{.lr = 0.1});
  check_resumed<nn::RMSprop>(nn::RmsPropConfig{.lr = 0.1, .momentum = 0.9, .centered = true});
  check_resumed<nn::Lion>(nn::LionConfig{.lr = 0.1});
  check_resumed<nn::Muon>(nn::MuonConfig{.lr = 0.1});
}

TEST_CASE("RMSprop: keeps only the moments that it needs") {
  const std::vector<Tensor> p = {leaf({1, 2})};
  const auto moments = [&](const nn::RmsPropConfig& config) {
    nn::RMSprop optimizer(p, config);
    run(optimizer, p, 0, 1);
    return optimizer.state().size() - 3;  // lr, weight_decay and steps
  };
  CHECK(moments({}) == 1);
  CHECK(moments({.momentum = 0.9}) == 2);
  CHECK(moments({.centered = true}) == 2);
  CHECK(moments({.momentum = 0.9, .centered = true}) == 3);
}

TEST_CASE("optimizers: a state that does not fit is refused") {
  const std::vector<Tensor> p = {leaf({1, 2})};
  nn::AdamW adam(p);
  nn::SGD sgd(p), momentum(p, {.momentum = 0.9});
  run(adam, p, 0, 1);
  run(sgd, p, 0, 1);
  CHECK_THROWS_WITH_AS(sgd.load_state(adam.state()), doctest::Contains("another kind of optimizer"), ValueError);
  CHECK_THROWS_WITH_AS(momentum.load_state(sgd.state()), doctest::Contains("'0.moment1' should be [2] float64"),
                       ValueError);
  nn::Lion lion(p);
  const std::vector<Tensor> matrix = {ones({1, 2}, DType::float64).set_requires_grad()};
  nn::Muon muon(matrix);
  nn::Lion lion_of_matrix(matrix);
  nn::RMSprop rmsprop(p), centered(p, {.centered = true}), with_momentum(p, {.momentum = 0.9});
  run(lion, p, 0, 1);
  run(rmsprop, p, 0, 1);
  run(centered, p, 0, 1);
  run(muon, matrix, 0, 1);
  CHECK_THROWS_WITH_AS(rmsprop.load_state(lion.state()), doctest::Contains("'0.square_avg' should be [2] float64"),
                       ValueError);
  CHECK_THROWS_WITH_AS(with_momentum.load_state(centered.state()), doctest::Contains("'0.momentum_buffer' should be"),
                       ValueError);
  CHECK_THROWS_WITH_AS(momentum.load_state(lion.state()), doctest::Contains("'0.moment1' should be"), ValueError);
  CHECK_THROWS_WITH_AS(lion.load_state(rmsprop.state()), doctest::Contains("'0.exp_avg' should be"), ValueError);
  CHECK_THROWS_WITH_AS(lion_of_matrix.load_state(muon.state()), doctest::Contains("'0.exp_avg' should be"),
                       ValueError);
  for (const double wrong : {-5., std::numeric_limits<double>::quiet_NaN()}) {
    TensorMap state = adam.state();
    state["lr"] = tensor({wrong}, DType::float64);
    CHECK_THROWS_WITH_AS(adam.load_state(state), doctest::Contains("lr is"), ValueError);
    CHECK(*adam.groups()[0].lr == 1e-3);
  }
  nn::AdamW larger({leaf({1, 2}), leaf({1})});
  CHECK_THROWS_WITH_AS(larger.load_state(adam.state()), doctest::Contains("'steps' should be [2] int64"), ValueError);
}

TEST_CASE("optimizers: numbers of steps that cannot be are refused") {
  const std::vector<Tensor> parameters = {leaf({1, 2})};
  nn::AdamW adamw(parameters);
  for (const int64_t wrong : {int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    TensorMap state = adamw.state();
    state["steps"] = tensor<int64_t>({wrong});
    if (wrong > 0) state["0.moment1"] = state["0.moment2"] = zeros({2}, parameters[0].dtype());
    CHECK_THROWS_WITH_AS(adamw.load_state(state), doctest::Contains("a parameter has made"), ValueError);
  }
}
