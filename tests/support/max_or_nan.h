#pragma once

#include <cmath>

namespace linnet::test {

/// The larger of two, or NaN where one is NaN: a bound then fails, which std::max would let pass.
inline double max_or_nan(double a, double b) { return a > b || std::isnan(a) ? a : b; }

}  // namespace linnet::test
