#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tests/support/values.h"

/// Where special values go elsewhere than in PyTorch, and why: for special_values_test.cpp.

namespace linnet::test {

/// An element of a result that is not PyTorch's.
struct Place {
  std::string op;
  bool is_float32 = false;
  std::string result;           ///< "output0", "grad1", …
  std::vector<Doubles> inputs;  ///< of each its element, or its row
  size_t column = 0;            ///< in rows
  double ours = 0, theirs = 0;
};

inline bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Whether one of the exceptions is made for it.
bool is_explained(const Place& at);

/// The reasons of those that were never needed.
std::vector<std::string> unused_exceptions();

}  // namespace linnet::test
