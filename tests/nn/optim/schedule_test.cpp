#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <utility>

#include <linnet/linnet.h>

#include "tests/support/near.h"

using namespace linnet;
using linnet::test::near;

TEST_CASE("schedules: their landmarks") {
  using namespace nn;
  CHECK(schedule::constant(0.1)(1'000'000) == 0.1);

  for (const auto& make : {schedule::warmup_cosine, schedule::warmup_linear}) {
    const Schedule rate = make({.lr = 1, .min_lr = 0.1, .warmup = 9, .steps = 109});
    CHECK(rate(0) == near(0.1));
    CHECK(rate(8) == near(0.9));
    CHECK(rate(9) == near(1));
    CHECK(rate(59) == near(0.55));
    CHECK(rate(109) == near(0.1));
    CHECK(rate(500) == near(0.1));
    CHECK_THROWS_AS(make({.warmup = 10, .steps = 10}), ValueError);
  }
  const Schedule inverse = schedule::inverse_sqrt({.lr = 1, .warmup = 4});
  CHECK(inverse(0) == near(0.25));
  CHECK(inverse(3) == near(1));
  CHECK(inverse(15) == near(0.5));
  CHECK_THROWS_AS(schedule::inverse_sqrt({.warmup = 0}), ValueError);

  const Schedule cycle = schedule::one_cycle({.max_lr = 1, .steps = 100});
  CHECK(cycle(0) == near(1.0 / 25));
  CHECK(cycle(29) == near(1));
  CHECK(cycle(99) == near(1.0 / 25e4));
  CHECK(cycle(200) == cycle(99));
  const Schedule momentum =
      schedule::one_cycle_momentum({.steps = 10, .pct_start = 0.4, .base_momentum = 0.5, .max_momentum = 0.8});
  CHECK(momentum(0) == near(0.8));
  CHECK(momentum(3) == near(0.5));
  CHECK(momentum(9) == near(0.8));
  CHECK(schedule::one_cycle({.max_lr = 1, .steps = 1})(0) > 0);
  CHECK_THROWS_AS(schedule::one_cycle({.steps = 0}), ValueError);
  CHECK_THROWS_AS(schedule::one_cycle({.steps = 10, .pct_start = 2}), ValueError);
}

TEST_CASE("schedules: first and last rates, and those between and beyond them") {
  using namespace nn;
  constexpr int64_t kFar = std::numeric_limits<int64_t>::max();
  for (const auto& make : {schedule::warmup_cosine, schedule::warmup_linear}) {
    for (const int64_t warmup : {0, 1, 9}) {
      for (const int64_t rest : {1, 2, 50}) {
        CAPTURE(warmup);
        CAPTURE(rest);
        const int64_t steps = warmup + rest;
        const Schedule rate = make({.lr = 2, .min_lr = 0.5, .warmup = warmup, .steps = steps});
        CHECK(rate(0) == near(2.0 / static_cast<double>(warmup + 1)));
        for (int64_t step = 0; step < warmup; ++step) CHECK(rate(step) < rate(step + 1));
        CHECK(rate(warmup) == 2);  // the highest, at once after the warm-up
        for (int64_t step = warmup; step < steps; ++step) CHECK(rate(step) > rate(step + 1));
        for (const int64_t step : {steps, steps + 1, 10 * steps, kFar}) CHECK(rate(step) == near(0.5));
      }
    }
  }
  for (const int64_t warmup : {1, 2, 30}) {
    CAPTURE(warmup);
    const Schedule rate = schedule::inverse_sqrt({.lr = 2, .warmup = warmup});
    const auto w = static_cast<double>(warmup);
    CHECK(rate(0) == near(2 / w));
    for (int64_t step = 0; step + 1 < warmup; ++step) CHECK(rate(step) < rate(step + 1));
    CHECK(rate(warmup - 1) == near(2));  // the highest, at the last step of the warm-up
    CHECK(rate(warmup) == near(2 * std::sqrt(w / (w + 1))));
    CHECK(rate(100 * warmup - 1) == near(0.2));
  }
  for (const int64_t steps : {2, 10, 99}) {
    for (const double rising : {0.0, 0.1, 0.5, 1.0}) {
      CAPTURE(steps);
      CAPTURE(rising);
      const Schedule rate = schedule::one_cycle(
          {.max_lr = 2, .steps = steps, .pct_start = rising, .div_factor = 10, .final_div_factor = 100});
      const double top = rising * static_cast<double>(steps) - 1;  // PyTorch's, which need not be a whole step
      for (int64_t step = 0; step + 1 < steps; ++step) {
        const auto at = static_cast<double>(step);
        if (at + 1 <= top) CHECK(rate(step) < rate(step + 1));
        if (at >= top) CHECK(rate(step) > rate(step + 1));
      }
      if (top > 0) CHECK(rate(0) == near(0.2));
      if (top >= 0 && top == std::floor(top)) CHECK(rate(static_cast<int64_t>(top)) == near(2));
      if (rising < 1) CHECK(rate(steps - 1) == near(0.002));
      for (const int64_t step : {steps, steps + 1, 10 * steps, kFar}) CHECK(rate(step) == rate(steps - 1));
    }
  }
  for (const bool one_minus_sqrt : {false, true}) {
    const Schedule rate = schedule::warmup_stable_decay(
        {.lr = 2, .min_lr = 0.5, .warmup = 3, .decay = 4, .steps = 20, .one_minus_sqrt = one_minus_sqrt});
    for (int64_t step = 0; step < 3; ++step) CHECK(rate(step) == near(0.5 * static_cast<double>(step + 1)));
    for (int64_t step = 3; step <= 16; ++step) CHECK(rate(step) == 2);
    for (int64_t step = 16; step < 20; ++step) CHECK(rate(step) > rate(step + 1));
    CHECK(rate(17) == near(one_minus_sqrt ? 1.25 : 1.625));
    for (const int64_t step : {int64_t{20}, int64_t{21}, kFar}) CHECK(rate(step) == near(0.5));
  }
  CHECK(schedule::warmup_stable_decay({.lr = 2, .warmup = 1, .decay = 1, .steps = 2})(1) == 2);
  CHECK_THROWS_WITH_AS(schedule::warmup_stable_decay({.warmup = 5, .decay = 6, .steps = 10}),
                       doctest::Contains("10 steps with 5 of warm-up and 6 of decay"), ValueError);
  CHECK_THROWS_AS(schedule::warmup_stable_decay({.warmup = -1, .decay = 6, .steps = 10}), ValueError);
  CHECK_THROWS_AS(schedule::warmup_stable_decay({.decay = 0, .steps = 10}), ValueError);

  const Schedule falling = schedule::step({.lr = 2, .step_size = 10});
  CHECK(falling(0) == 2);
  CHECK(falling(9) == 2);
  CHECK(falling(10) == near(0.2));
  CHECK(falling(29) == near(0.02));
  CHECK(falling(kFar) == 0);
  CHECK_THROWS_WITH_AS(schedule::step({.step_size = 0}), doctest::Contains("step_size is 0"), ValueError);
  CHECK(schedule::exponential({.lr = 2, .gamma = 0.5})(3) == 0.25);
  CHECK(schedule::exponential({.lr = 2})(kFar) == 2);
  const auto steps = schedule::multi_step({.lr = 2, .milestones = {3, 3, 5}, .gamma = 0.5});  // as MultiStepLR
  CHECK(steps(2) == 2);
  CHECK(steps(3) == 0.5);
  CHECK(steps(4) == 0.5);
  CHECK(steps(5) == 0.25);
  CHECK(schedule::multi_step({.lr = 2})(kFar) == 2);
  CHECK_THROWS_WITH_AS(schedule::multi_step({.milestones = {5, 3}}), doctest::Contains("must be in increasing order"),
                       ValueError);

  const Schedule constant = schedule::constant(0.3);
  for (const int64_t step : {int64_t{0}, int64_t{1}, kFar}) CHECK(constant(step) == 0.3);
}

TEST_CASE("ReduceLROnPlateau: patience, cooldown, threshold and the least rate") {
  nn::ReduceLROnPlateau plateau({.lr = 1, .factor = 0.5, .patience = 2, .cooldown = 2, .min_lr = 0.3});
  const auto rates = [&](const std::vector<double>& measurements) {
    std::vector<double> result;
    for (const double measurement : measurements) result.push_back(plateau.step(measurement));
    return result;
  };
  using Rates = std::vector<double>;
  CHECK(rates({5, 4, 4, 3.9999}) == Rates{1, 1, 1, 1});             // a ten-thousandth is needed to be better
  CHECK(rates({4}) == Rates{0.5});                                  // the third that is not
  CHECK(rates({4, 4, 4, 4, 4}) == Rates{0.5, 0.5, 0.5, 0.5, 0.3});  // two of them do not count
  CHECK(rates({NAN, NAN, NAN, NAN, NAN}) == Rates{0.3, 0.3, 0.3, 0.3, 0.3});
  CHECK(plateau.lr() == 0.3);

  nn::ReduceLROnPlateau least({.lr = 1e-8, .patience = 0});
  least.step(1);
  CHECK(least.step(1) == 1e-8);  // a reduction of less than eps is not made
  nn::ReduceLROnPlateau coarse({.lr = 1, .factor = 0.5, .patience = 0, .eps = 0.3});
  coarse.step(1);
  CHECK(coarse.step(1) == 0.5);
  CHECK(coarse.step(1) == 0.5);

  nn::ReduceLROnPlateau up({.lr = 1, .maximise = true, .patience = 0});
  CHECK(up.step(0.5) == 1);
  CHECK(up.step(0.6) == 1);
  CHECK(up.step(0.6) == near(0.1));
}

TEST_CASE("ReduceLROnPlateau: a resumed one goes on alike, and refuses a state that is not its own") {
  const nn::PlateauConfig config{.lr = 1, .factor = 0.5, .patience = 1, .cooldown = 1};
  nn::ReduceLROnPlateau whole(config);
  for (const double measurement : {3., 3., 3., 2.}) whole.step(measurement);
  nn::ReduceLROnPlateau resumed(config);
  resumed.load_state(whole.state());
  CHECK(resumed.lr() == whole.lr());
  for (const double measurement : {2., 2., 1., 1., 1., 1., 1., 1.})
    CHECK(resumed.step(measurement) == whole.step(measurement));
  CHECK(whole.lr() == 0.0625);

  const double before = resumed.lr();
  nn::ReduceLROnPlateau patient({.patience = 50});
  for (int i = 0; i < 20; ++i) patient.step(1);
  CHECK_THROWS_WITH_AS(resumed.load_state(patient.state()), doctest::Contains("another patience than 1"), ValueError);
  nn::ReduceLROnPlateau cooling({.patience = 1, .cooldown = 5});
  for (int i = 0; i < 3; ++i) cooling.step(1);
  CHECK_THROWS_WITH_AS(resumed.load_state(cooling.state()), doctest::Contains("cooldown than 1"), ValueError);
  CHECK_THROWS_WITH_AS(resumed.load_state({}), doctest::Contains("not that of a ReduceLROnPlateau"), ValueError);
  TensorMap wrong = whole.state();
  wrong["lr_and_best"] = tensor({-1, 0}, DType::float64);
  CHECK_THROWS_WITH_AS(resumed.load_state(wrong), doctest::Contains("lr is -1"), ValueError);
  wrong["lr_and_best"] = tensor({1, 0});
  CHECK_THROWS_AS(resumed.load_state(wrong), ValueError);
  CHECK(resumed.lr() == before);
}

TEST_CASE("set_momentum: what each optimizer takes") {
  Tensor p = ones({2, 2}).set_requires_grad();
  const auto check = [](auto&& optimizer, double before) {
    CHECK(optimizer.momentum() == before);
    for (const double bad : {-0.1, std::numeric_limits<double>::infinity(), std::nan("")}) {
      CHECK_THROWS_WITH_AS(optimizer.set_momentum(bad), doctest::Contains("momentum is"), ValueError);
    }
    CHECK(optimizer.momentum() == before);
    optimizer.set_momentum(0);
    optimizer.set_momentum(0.7);
    CHECK(optimizer.momentum() == 0.7);
  };
  check(nn::SGD({p}, {.momentum = 0.9}), 0.9);
  check(nn::RMSprop({p}, {.momentum = 0.9}), 0.9);
  check(nn::Muon({p}), 0.95);
  check(nn::Muon({p}, {.momentum = 0}), 0);
  const char* message =
      "set_momentum: 0.7 for an optimizer without momentum, which has no buffer for it; build it with";
  nn::SGD sgd({p});
  nn::RMSprop rmsprop({p});
  CHECK_THROWS_WITH_AS(sgd.set_momentum(0.7), doctest::Contains(message), ValueError);
  CHECK_THROWS_WITH_AS(rmsprop.set_momentum(0.7), doctest::Contains(message), ValueError);
  CHECK_NOTHROW(sgd.set_momentum(0));
}

TEST_CASE("set_momentum: with 0 a step is one without momentum, and leaves the buffer as it is, as in PyTorch") {
  const auto train = [](const auto& make) {
    Tensor p = zeros({1}, DType::float64).set_requires_grad();
    auto optimizer = make(p);
    for (const auto& [momentum, g] : {std::pair{0.9, 1.0}, {0.0, 2.0}, {0.5, 1.0}}) {
      optimizer->set_momentum(momentum);
      p.set_grad(full({1}, g, DType::float64));
      optimizer->step();
    }
    return p.item<double>();
  };
  // p falls by 1, by 2, and by 0.5·1 + 0.5·1.
  CHECK(train([](const Tensor& p) {
          return std::make_unique<nn::SGD>(std::vector{p}, nn::SgdConfig{.lr = 1, .momentum = 0.9, .dampening = 0.5});
        }) == -4);
  // With alpha = 0 the quotient is g/|g| = 1: p falls by 1, by 1, and by 0.5·1 + 1.
  CHECK(train([](const Tensor& p) {
          const nn::RmsPropConfig config{.lr = 1, .alpha = 0, .eps = 0, .momentum = 0.9};
          return std::make_unique<nn::RMSprop>(std::vector{p}, config);
        }) == -3.5);
}
