#include <linnet/nn/metrics.h>

#include <cmath>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

using namespace linnet;

namespace {

/// Logits that are largest at these classes.
Tensor taking(const std::vector<int64_t>& predictions, int64_t classes) {
  return one_hot(tensor(predictions), classes, DType::float32);
}

}  // namespace

TEST_CASE("macro_f1: by hand") {
  const Tensor targets = tensor(std::vector<int64_t>{0, 0, 0, 1, 1, 2});
  // Class 0: P = 2/3, R = 2/3. Class 1: P = 1/2, R = 1/2. Class 2: P = 1, R = 1. Class 3: none.
  const Tensor logits = taking({0, 0, 1, 1, 0, 2}, 4);
  CHECK(nn::macro_f1(logits, targets) == doctest::Approx((2.0 / 3 + 1.0 / 2 + 1 + 0) / 4));
  CHECK(nn::macro_f1(logits.reshape({2, 3, 4}), targets.reshape({2, 3})) == nn::macro_f1(logits, targets));
  CHECK(nn::macro_f1(taking({0, 0, 0, 1, 1, 2}, 3), targets) == 1);
  CHECK(nn::macro_f1(taking({1, 1, 1, 0, 0, 0}, 3), targets) == 0);
}

TEST_CASE("macro_f1: bad input") {
  const Tensor logits = taking({0, 1}, 2), targets = tensor(std::vector<int64_t>{0, 1});
  CHECK_THROWS_WITH_AS(nn::macro_f1(logits, taking({0}, 3)), doctest::Contains("targets have shape [1, 3]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(nn::macro_f1(zeros({0, 3}), zeros({0}, DType::int64)), doctest::Contains("[0, 3]"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(nn::macro_f1(zeros({2, 0}), targets), doctest::Contains("[2, 0]"), ShapeError);
  CHECK_THROWS_WITH_AS(nn::macro_f1(zeros({}), targets), doctest::Contains("have shape []"), ShapeError);
  CHECK_THROWS_WITH_AS(nn::macro_f1(logits, targets.to(DType::float32)), doctest::Contains("to(DType::int64)"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(nn::macro_f1(logits, targets + 1), doctest::Contains("target 2 of row 1 is not a class"),
                       IndexError);
  CHECK_THROWS_WITH_AS(nn::macro_f1(logits, targets - 1), doctest::Contains("target -1 of row 0"), IndexError);
  const Tensor diverged = logits.clone();
  diverged[{1, 0}] = NAN;
  CHECK_THROWS_WITH_AS(nn::macro_f1(diverged, targets), doctest::Contains("row 1 have a NaN"), ValueError);
}
