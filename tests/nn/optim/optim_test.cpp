#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include <linnet/linnet.h>

#include "tests/nn/optim/fixed_gradients.h"
#include "tests/support/leaf.h"
#include "tests/support/near.h"
#include "tests/support/values.h"

using namespace linnet;
using linnet::test::leaf;
using linnet::test::near;
using linnet::test::run;
using linnet::test::set_grads;

TEST_CASE("SGD: by hand") {
  Tensor p = leaf({1, 2});
  nn::SGD optimizer({p}, {.lr = 0.1, .momentum = 0.5, .weight_decay = 0.1});
  set_grads({p}, 1);
  optimizer.step();  // v = 1 + 0.1·p
  CHECK(p.to_vector<double>()[0] == near(1 - 0.1 * 1.1));
  optimizer.step();  // v = 0.5·1.1 + 1 + 0.1·0.89
  CHECK(p.to_vector<double>()[0] == near(0.89 - 0.1 * (0.55 + 1.089)));

  Tensor q = leaf({1});
  nn::SGD damped({q}, {.lr = 0.1, .momentum = 0.5, .dampening = 0.2});
  set_grads({q}, 1);
  damped.step();  // v = 1: the first gradient is not damped
  damped.step();  // v = 0.5·1 + 0.8·1
  CHECK(q.item<double>() == near(1 - 0.1 - 0.13));
  CHECK_THROWS_WITH_AS(nn::SGD({p}, {.nesterov = true}), doctest::Contains("needs momentum"), ValueError);
}

TEST_CASE("AdamW: its first step is lr whatever the gradient, and decay is apart from it") {
  Tensor p = leaf({1, -2});
  nn::AdamW optimizer({p}, {.lr = 0.01, .weight_decay = 0.5});
  set_grads({p}, 1e-3);
  optimizer.step();
  CHECK(p.to_vector<double>()[0] == near(1 * (1 - 0.005) - 0.01, 1e-5));
  CHECK(p.to_vector<double>()[1] == near(-2 * (1 - 0.005) - 0.01, 1e-5));
  CHECK_THROWS_AS(nn::Adam({p}, {.beta1 = 1}), ValueError);
}

TEST_CASE("RMSprop, Lion and Muon: first steps by hand") {
  Tensor p = leaf({1, -2});
  nn::RMSprop rmsprop({p}, {.lr = 0.01});  // g/√(0.01·g²) is ten times its sign
  set_grads({p}, -4);
  rmsprop.step();
  CHECK(p.to_vector<double>()[0] == near(1.1, 1e-8));
  CHECK(p.to_vector<double>()[1] == near(-1.9, 1e-8));

  Tensor q = leaf({1, -2});
  nn::Lion lion({q}, {.lr = 0.01, .weight_decay = 0.5});
  set_grads({q}, -4);
  lion.step();
  CHECK(q.to_vector<double>()[0] == near(1 + 0.01 - 0.005));
  CHECK(q.to_vector<double>()[1] == near(-2 + 0.01 + 0.01));
  set_grads({q}, 0.3);  // the running mean, −0.04, still outweighs a tenth of this
  lion.step();
  CHECK(q.to_vector<double>()[0] > 1.009);

  Tensor m = zeros({3, 3}, DType::float64).set_requires_grad();
  nn::Muon muon({m}, {.lr = 1});
  m.set_grad(eye(3, -1, DType::float64) * 5);
  muon.step();
  double singular = 1 / std::sqrt(3.0);  // all three
  for (int i = 0; i < 5; ++i) {
    singular = 3.4445 * singular - 4.7750 * std::pow(singular, 3) + 2.0315 * std::pow(singular, 5);
  }
  CHECK(allclose(m, eye(3, -1, DType::float64) * -singular, 1e-12));

  Tensor number = zeros({1, 1}, DType::float64).set_requires_grad();
  nn::Muon once({number}, {.lr = 1, .momentum = 0, .a = 3, .b = -2, .c = 4, .eps = 4, .ns_steps = 1});
  set_grads({number}, 2);
  once.step();  // X = 2/4, A = X² = 1/4: 3·X + (−2·A + 4·A²)·X
  CHECK(number.item<double>() == near(-(1.5 + (-0.5 + 0.25) * 0.5)));
}

TEST_CASE("Muon: a transposed matrix takes transposed steps, and a gradient of zeros none") {
  Tensor tall = test::uniform({5, 3}, 1).set_requires_grad(),
         wide = tall.detach().t().contiguous().set_requires_grad();
  const nn::MuonConfig config{.adjust_lr = nn::MuonLr::match_rms_adamw};
  nn::Muon first({tall}, config), second({wide}, config);
  for (uint64_t step = 2; step < 5; ++step) {
    tall.set_grad(test::uniform({5, 3}, step));
    wide.set_grad(tall.grad().t().contiguous());
    first.step();
    second.step();
  }
  CHECK(allclose(tall.detach().t(), wide, 1e-12));

  Tensor still = ones({2, 2}, DType::float64).set_requires_grad();
  nn::Muon third({still}, {.weight_decay = 0});
  set_grads({still}, 0);
  third.step();
  CHECK(still.to_vector<double>() == std::vector<double>{1, 1, 1, 1});

  CHECK_THROWS_WITH_AS(nn::Muon({leaf({1, 2})}),
                       doctest::Contains("Muon: a parameter of shape [2] is no matrix; train gains, biases and "
                                         "embeddings with AdamW beside it"),
                       ShapeError);
  CHECK_THROWS_AS(nn::Muon({zeros({2, 2, 2}).set_requires_grad()}), ShapeError);
  CHECK_THROWS_WITH_AS(nn::Muon({still}, {.ns_steps = 100}),
                       doctest::Contains("ns_steps is 100; it must be from 0 to 99"), ValueError);
  CHECK_THROWS_AS(nn::Muon({still}, {.ns_steps = -1}), ValueError);
}

TEST_CASE("optimizers: groups have rates of their own, and parameters without a gradient stay") {
  Tensor a = leaf({1}), b = leaf({1}), c = leaf({1});
  nn::SGD optimizer({{.parameters = {a}}, {.parameters = {b, c}, .lr = 1}}, {.lr = 0.1});
  set_grads({a, b}, 1);
  optimizer.step();
  CHECK(a.item<double>() == near(0.9));
  CHECK(b.item<double>() == 0);
  CHECK(c.item<double>() == 1);
  optimizer.scale_lr(20);  // 2 and 20
  optimizer.set_lr(0, 1);
  optimizer.step();
  CHECK(a.item<double>() == near(-1.1));
  CHECK(b.item<double>() == 0);
  optimizer.zero_grad();
  CHECK_FALSE(a.grad().defined());

  set_grads({a, b, c}, 1);
  b.set_requires_grad(false);
  optimizer.step();
  CHECK(b.item<double>() == 0);
  optimizer.zero_grad();
  b.set_requires_grad();
  for (const Tensor& each : {a, b, c}) CHECK_FALSE(each.grad().defined());

  CHECK_THROWS_WITH_AS(nn::SGD({{.parameters = {a}}, {.parameters = {b, a}}}, nn::SgdConfig{}),
                       doctest::Contains("comes twice"), ValueError);
  CHECK_THROWS_WITH_AS(nn::SGD(std::vector<Tensor>{}), doctest::Contains("no parameters"), ValueError);
  CHECK_THROWS_WITH_AS(nn::SGD({a, b * 2}), doctest::Contains("is the result of an op"), ValueError);
  CHECK_THROWS_WITH_AS(nn::SGD({arange(3)}), doctest::Contains("is int64; train its to(DType::float32)"), DTypeError);
}

TEST_CASE("optimizers and schedules refuse settings that are out of range, and keep what they had") {
  Tensor p = leaf({1});
  using namespace nn;
  for (const double bad : {-1.0, std::nan(""), static_cast<double>(INFINITY)}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(SGD({p}, {.lr = bad}), doctest::Contains("lr is"), ValueError);
    CHECK_THROWS_WITH_AS(SGD({p}, {.momentum = bad}), doctest::Contains("momentum is"), ValueError);
    CHECK_THROWS_WITH_AS(SGD({p}, {.momentum = 0.9, .dampening = bad}), doctest::Contains("dampening is"),
                         ValueError);
    CHECK_THROWS_WITH_AS(Adam({p}, {.eps = bad}), doctest::Contains("eps is"), ValueError);
    CHECK_THROWS_WITH_AS(AdamW({p}, {.weight_decay = bad}), doctest::Contains("weight_decay is"), ValueError);
    CHECK_THROWS_WITH_AS(Adam({p}, {.beta1 = bad}), doctest::Contains("beta1 is"), ValueError);
    CHECK_THROWS_WITH_AS(Adam({p}, {.beta2 = bad}), doctest::Contains("beta2 is"), ValueError);
    CHECK_THROWS_WITH_AS(RMSprop({p}, {.alpha = bad}), doctest::Contains("alpha is"), ValueError);
    CHECK_THROWS_WITH_AS(RMSprop({p}, {.eps = bad}), doctest::Contains("eps is"), ValueError);
    CHECK_THROWS_WITH_AS(RMSprop({p}, {.momentum = bad}), doctest::Contains("momentum is"), ValueError);
    CHECK_THROWS_WITH_AS(Lion({p}, {.beta1 = bad}), doctest::Contains("beta1 is"), ValueError);
    CHECK_THROWS_WITH_AS(Lion({p}, {.beta2 = bad}), doctest::Contains("beta2 is"), ValueError);
    CHECK_THROWS_WITH_AS(Muon({p}, {.momentum = bad}), doctest::Contains("momentum is"), ValueError);
    CHECK_THROWS_WITH_AS(Muon({p}, {.eps = bad}), doctest::Contains("eps is"), ValueError);
    CHECK_THROWS_WITH_AS(ExponentialMovingAverage({p}, bad), doctest::Contains("decay is"), ValueError);
    CHECK_THROWS_WITH_AS(SGD({{.parameters = {p}, .lr = bad}}, SgdConfig{}), doctest::Contains("lr is"), ValueError);

    SGD optimizer({p}, {.lr = 0.5});
    CHECK_THROWS_AS(optimizer.set_lr(bad), ValueError);
    CHECK_THROWS_AS(optimizer.set_lr(bad, 0), ValueError);
    CHECK_THROWS_WITH_AS(optimizer.set_lr(1, 1), doctest::Contains("group is 1, and the optimizer has 1"),
                         IndexError);
    CHECK(optimizer.groups()[0].lr == 0.5);
    AdamW adam({p}, {.beta1 = 0.8});
    CHECK_THROWS_WITH_AS(adam.set_beta1(bad), doctest::Contains("beta1 is"), ValueError);
    CHECK(adam.beta1() == 0.8);
    adam.set_beta1(0.7);
    CHECK(adam.beta1() == 0.7);

    CHECK_THROWS_AS(schedule::constant(bad), ValueError);
    CHECK_THROWS_AS(schedule::warmup_cosine({.lr = bad, .steps = 10}), ValueError);
    CHECK_THROWS_AS(schedule::warmup_linear({.min_lr = bad, .steps = 10}), ValueError);
    CHECK_THROWS_AS(schedule::inverse_sqrt({.lr = bad}), ValueError);
    CHECK_THROWS_AS(schedule::one_cycle({.max_lr = bad, .steps = 10}), ValueError);
    CHECK_THROWS_WITH_AS(schedule::one_cycle_momentum({.steps = 10, .base_momentum = bad}),
                         doctest::Contains("base_momentum is"), ValueError);
    CHECK_THROWS_WITH_AS(schedule::one_cycle_momentum({.steps = 10, .max_momentum = bad}),
                         doctest::Contains("max_momentum is"), ValueError);
    CHECK_THROWS_AS(schedule::warmup_stable_decay({.lr = bad, .decay = 1, .steps = 10}), ValueError);
    CHECK_THROWS_AS(schedule::warmup_stable_decay({.min_lr = bad, .decay = 1, .steps = 10}), ValueError);
    CHECK_THROWS_AS(schedule::step({.lr = bad, .step_size = 1}), ValueError);
    CHECK_THROWS_AS(schedule::step({.step_size = 1, .gamma = bad}), ValueError);
    CHECK_THROWS_AS(schedule::exponential({.lr = bad}), ValueError);
    CHECK_THROWS_AS(schedule::exponential({.gamma = bad}), ValueError);
    CHECK_THROWS_AS(ReduceLROnPlateau({.lr = bad}), ValueError);
    CHECK_THROWS_AS(ReduceLROnPlateau({.factor = bad}), ValueError);
    CHECK_THROWS_AS(ReduceLROnPlateau({.threshold = bad}), ValueError);
    CHECK_THROWS_AS(ReduceLROnPlateau({.min_lr = bad}), ValueError);
    CHECK_THROWS_AS(ReduceLROnPlateau({.eps = bad}), ValueError);
  }
  CHECK_THROWS_AS(Lion({p}, {.beta2 = 1}), ValueError);
  CHECK_THROWS_AS(ReduceLROnPlateau({.factor = 1}), ValueError);
  CHECK_THROWS_AS(ReduceLROnPlateau({.patience = -1}), ValueError);
  CHECK_THROWS_AS(ReduceLROnPlateau({.cooldown = -1}), ValueError);
  CHECK_THROWS_AS(schedule::one_cycle({.steps = 10, .div_factor = 0}), ValueError);
  CHECK_THROWS_AS(schedule::one_cycle({.steps = 10, .final_div_factor = -1}), ValueError);
  CHECK_THROWS_AS(schedule::one_cycle_momentum({.steps = 10, .max_momentum = 1}), ValueError);
  CHECK_THROWS_AS(Adam({p}).set_beta1(1), ValueError);

  set_grads({p}, 2);
  CHECK_THROWS_WITH_AS(clip_grad_norm_({p}, -1), doctest::Contains("max_norm is -1"), ValueError);
  CHECK_THROWS_AS(clip_grad_norm_({p}, std::nan("")), ValueError);
  CHECK_THROWS_WITH_AS(clip_factor(scalar(1), -1), doctest::Contains("max_norm is -1"), ValueError);
  CHECK_THROWS_WITH_AS(clip_grad_value_({p}, -1), doctest::Contains("limit is -1"), ValueError);
  CHECK(p.grad().item<double>() == 2);
}

TEST_CASE("decay_matrices_only: gains and biases do not decay") {
  const auto groups = nn::decay_matrices_only({zeros({2, 2}), zeros({2}), zeros({2, 2, 2})}, 0.1);
  CHECK(groups[0].parameters.size() == 2);
  CHECK(groups[0].weight_decay == 0.1);
  CHECK(groups[1].parameters.size() == 1);
  CHECK(groups[1].weight_decay == 0.0);
}

TEST_CASE("optimizers: the factor of a step multiplies the gradients, which stay as they are") {
  const auto check = [](auto make) {
    for (const DType dtype : {DType::float32, DType::float64}) {
      const auto trained = [&](double in_step, double before) {
        Tensor p = test::uniform({50}, 1).to(dtype).set_requires_grad();
        const auto optimizer = make({p});
        for (uint64_t step = 2; step < 5; ++step) {
          const Tensor gradient = test::uniform({50}, step).to(dtype) * before;
          p.set_grad(gradient);
          optimizer->step({.grad_factor = scalar(in_step)});
          CHECK(p.grad().to_vector<double>() == gradient.to_vector<double>());
        }
        return p.to_vector<double>();
      };
      const std::vector<double> scaled = trained(0.25, 1), expected = trained(1, 0.25), plain = trained(1, 1);
      CHECK(scaled != plain);
      for (size_t i = 0; i < scaled.size(); ++i) {
        CHECK(scaled[i] == near(expected[i], dtype == DType::float32 ? 1e-6 : 1e-14));
      }
    }
  };
  using Parameters = std::vector<Tensor>;
  check([](const Parameters& p) {
    return std::make_unique<nn::SGD>(p, nn::SgdConfig{.lr = 0.1, .weight_decay = 0.3});
  });
  check([](const Parameters& p) {
    return std::make_unique<nn::SGD>(p, nn::SgdConfig{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.3});
  });
  check([](const Parameters& p) {
    return std::make_unique<nn::Adam>(p, nn::AdamConfig{.lr = 0.1, .eps = 0.1, .weight_decay = 0.3});
  });
  check([](const Parameters& p) { return std::make_unique<nn::AdamW>(p, nn::AdamWConfig{.lr = 0.1, .eps = 0.1}); });
  check([](const Parameters& p) {
    return std::make_unique<nn::RMSprop>(p, nn::RmsPropConfig{.lr = 0.1, .eps = 0.1, .weight_decay = 0.3});
  });
}

TEST_CASE("optimizers: a step that does not apply changes nothing, and its options are checked") {
  Tensor p = leaf({2});
  nn::SGD optimizer({p}, {.lr = 0.1});
  set_grads({p}, 1);
  optimizer.step({.apply = lt(scalar(NAN), INFINITY)});
  CHECK(p.item<double>() == 2);
  optimizer.step({.apply = lt(scalar(1), INFINITY)});
  CHECK(p.item<double>() == near(1.9));

  Tensor m = ones({2, 2}, DType::float64).set_requires_grad();
  set_grads({m}, 1);
  const auto check = [&](nn::Optimizer& each) {
    const std::vector<double> before = m.to_vector<double>();
    each.step({.apply = lt(scalar(NAN), INFINITY)});
    CHECK(m.to_vector<double>() == before);
    CHECK(each.state().at("steps").item<int64_t>() == 0);
    CHECK(each.state().size() == 3);  // no moments yet
    each.step({.apply = lt(scalar(1), INFINITY)});
    CHECK(m.to_vector<double>() != before);
    CHECK(each.state().at("steps").item<int64_t>() == 1);
  };
  nn::RMSprop rmsprop({m});
  nn::Lion lion({m});
  nn::Muon muon({m});
  for (nn::Optimizer* each : {static_cast<nn::Optimizer*>(&rmsprop), static_cast<nn::Optimizer*>(&lion),
                              static_cast<nn::Optimizer*>(&muon)}) {
    check(*each);
  }
  CHECK_THROWS_WITH_AS(optimizer.step({.grad_factor = ones({2})}),
                       doctest::Contains("grad_factor must have one element, not shape [2]"), ShapeError);
  CHECK_THROWS_WITH_AS(optimizer.step({.grad_factor = ones({1}, DType::int64)}),
                       doctest::Contains("grad_factor must be floating, not int64"), DTypeError);
  CHECK_THROWS_WITH_AS(optimizer.step({.apply = ones({1})}), doctest::Contains("apply must be bool, not float32"),
                       DTypeError);
  CHECK(p.item<double>() == near(1.9));
}

TEST_CASE("optimizers: a step edits in place, and backward notices") {
  Tensor p = leaf({2});
  nn::SGD optimizer({p}, {.lr = 0.1});
  const Tensor loss = sum(p * p);
  set_grads({p}, 1);
  optimizer.step();
  CHECK_THROWS_AS(backward(loss), AutogradError);
}
