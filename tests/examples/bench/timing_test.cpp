/// Timing of work in alternation with other work and with its matrix products.

#include "support/bench/timing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "support/bench/floor.h"

namespace linnet::examples::test {

TEST_CASE("measure_in_rounds: works take turns, each warmed up in every round") {
  std::string order;
  measure_in_rounds({{[&] { order += 'a'; }, 0}, {[&] { order += 'b'; }, 0}});
  CHECK(order == "aabbaabbaabb");  // the fewest rounds
}

TEST_CASE("measure_in_rounds: works have their seconds, a little at a time") {
  constexpr std::chrono::milliseconds kPause(1);
  std::string order;
  const auto pause = [&](char name) {
    return [&, name] {
      order += name;
      std::this_thread::sleep_for(kPause);
    };
  };
  const Clock::time_point begin = Clock::now();
  const auto times = measure_in_rounds({{pause('a'), 0.15}, {pause('b'), 0.05}});
  CHECK(milliseconds_since(begin) >= 200);
  CHECK(std::ranges::count(order, 'a') > std::ranges::count(order, 'b'));
  CHECK(order.find("ba") != order.rfind("ba"));
  REQUIRE(times.size() == 2);
  for (const Timing& t : times) {
    CHECK(t.least_ms >= 1);
    CHECK(t.median_ms >= t.least_ms);
    CHECK(t.most_ms >= t.median_ms);
  }
}

TEST_CASE("measure_in_rounds: one slow round does not move the median") {
  int calls = 0;
  const auto slow_at_first = [&] {
    if (++calls <= 2) std::this_thread::sleep_for(std::chrono::milliseconds(300));  // the first of three rounds
  };
  const Timing timing = measure_in_rounds({{slow_at_first, 0}})[0];
  CHECK(timing.most_ms >= 300);
  CHECK(timing.median_ms < 100);
}

TEST_CASE("the floor: products in turns with the work, for the seconds that there are") {
  const std::vector<MatrixProduct> products{{1, 4, 4, 4, false, false}, {2, 4, 3, 4, true, false}};
  const Clock::time_point begin = Clock::now();
  int calls = 0;
  const BesideFloor times = measure_beside_floor([&] { ++calls; }, products, 0);
  CHECK(calls == 6);  // three rounds
  REQUIRE(times.floor);
  CHECK(times.floor->median_ms > 0);
  CHECK(times.floor->least_ms <= times.floor->most_ms);
  CHECK(measure_floor(products, 0).median_ms > 0);
  CHECK(milliseconds_since(begin) < 1000);
  CHECK_FALSE(measure_beside_floor([] {}, {}, 0).floor);
}

}  // namespace linnet::examples::test
