#pragma once

#include <doctest/doctest.h>

namespace linnet::test {

/// Equal up to a relative error. (`doctest::Approx` alone allows an absolute one too: near 0 it takes anything.)
inline doctest::Approx near(double value, double relative = 1e-12) {
  return doctest::Approx(value).epsilon(relative).scale(0);
}

}  // namespace linnet::test
