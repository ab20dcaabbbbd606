#include <doctest/doctest.h>

#include <cmath>
#include <limits>

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
  const Schedule constant = schedule::constant(0.3);
  for (const int64_t step : {int64_t{0}, int64_t{1}, kFar}) CHECK(constant(step) == 0.3);
}
