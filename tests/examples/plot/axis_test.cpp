#include "support/plot/axis.h"

#include <doctest/doctest.h>

#include <limits>

namespace linnet::examples::test {
namespace {

// The labelled ticks, joined by spaces.
std::string labels(const Axis& axis, int count) {
  std::string text;
  for (const Tick& tick : axis.ticks(count)) {
    if (tick.label.empty()) continue;
    text += (text.empty() ? "" : " ") + tick.label;
  }
  return text;
}

}  // namespace

TEST_CASE("axis: linear ticks are round numbers with the digits they need") {
  CHECK(labels({0, 2000, false}, 7) == "0 500 1,000 1,500 2,000");
  CHECK(labels({1.83, 2.11, false}, 6) == "1.85 1.90 1.95 2.00 2.05 2.10");
  CHECK(labels({-1, 1, false}, 5) == "-1.0 -0.5 0.0 0.5 1.0");
  CHECK(labels({0, 3e-7, false}, 3) == "0 10⁻⁷ 2×10⁻⁷ 3×10⁻⁷");
  CHECK(labels({9.9e7, 1.01e8, false}, 2) == "9.9×10⁷ 1.00×10⁸ 1.01×10⁸");
}

TEST_CASE("axis: logarithmic ticks are decades, or 1, 2, 5 where there are few") {
  CHECK(labels({1, 1e4, true}, 6) == "1 10 100 1,000 10,000");
  CHECK(labels({0.03, 3, true}, 6) == "0.05 0.1 0.2 0.5 1 2");
  CHECK(labels({1e-9, 10, true}, 5) == "10⁻⁹ 10⁻⁶ 10⁻³ 10⁰");
  CHECK(labels({2.0, 3.0, true}, 5) == "2.0 2.2 2.4 2.6 2.8 3.0");
  CHECK(Axis{1, 1e4, true}.ticks(6).size() == 4 * 9 + 1);  // with the unlabelled ones
  CHECK(Axis{1, 100, true}.fraction(10) == doctest::Approx(0.5));
}

TEST_CASE("axis: the range covers what can be shown") {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Axis linear = fit_axis({1, kNan, 3, std::numeric_limits<double>::infinity()}, false, 0.1);
  CHECK(linear.low == doctest::Approx(0.8));
  CHECK(linear.high == doctest::Approx(3.2));
  CHECK(fit_axis({0.01, 3}, false, 0.1).low == 0);  // not below 0 if no value is negative
  CHECK(fit_axis({-1, 3}, false, 0.5).low == -3);

  const Axis log = fit_axis({-5, 0, 1, 100}, true, 0.5);
  CHECK(log.low == doctest::Approx(0.1));
  CHECK(log.high == doctest::Approx(1000));

  for (const double value : {0.0, 2.0, -7e5, 1e-12})
    CHECK(fit_axis({value, value}, false, 0).fraction(value) == doctest::Approx(0.5));
  CHECK(fit_axis({4, 4}, true, 0).fraction(4) == doctest::Approx(0.5));
  CHECK(fit_axis({kNan}, false, 0).high == 1);
  CHECK(fit_axis({-1}, true, 0).high == 10);
}

}  // namespace linnet::examples::test
