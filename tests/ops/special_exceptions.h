#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/support/values.h"

/// The special values for which linnet's results are not PyTorch's, and why: for special_values_test.cpp.

namespace linnet::test {

/// An element of a result that is not PyTorch's.
struct Place {
  std::string op;
  bool is_float32 = false;
  std::string result;           ///< "output0", "grad1", …
  std::vector<Doubles> inputs;  ///< the element or the row of each input
  size_t column = 0;            ///< the place in a row
  double ours = 0, theirs = 0;
};

inline bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Whether one of the exceptions covers it.
bool is_explained(const Place& at);

/// The exceptions that were never needed, with their reasons.
std::vector<std::string> unused_exceptions();

}  // namespace linnet::test
