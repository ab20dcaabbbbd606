#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>

#include "tests/support/values.h"

using namespace linnet;
using test::Bools;
using test::Doubles;
using test::Ints;
using test::kInfinity;
using test::values;

TEST_CASE("creation: constants") {
  CHECK(values(zeros({2})) == Doubles{0, 0});
  CHECK(values(ones({2, 1}, DType::int32)) == Doubles{1, 1});
  CHECK(values(full({3}, 2.5, DType::float64)) == Doubles{2.5, 2.5, 2.5});
  CHECK(full({}, true, DType::boolean).item<bool>());
  CHECK(full({1}, INT64_MAX, DType::int64).item<int64_t>() == INT64_MAX);
  CHECK(full({1}, -kInfinity).item<float>() == -std::numeric_limits<float>::infinity());
  CHECK(zeros({0, 3}).numel() == 0);
  CHECK(zeros({2}).dtype() == DType::float32);
  const Tensor x = ones({2, 3}, DType::int64).transpose(0, 1);
  CHECK(zeros_like(x).shape() == Shape{3, 2});
  CHECK(ones_like(x).dtype() == DType::int64);
  CHECK(values(full_like(x, 7)) == Doubles(6, 7));
  CHECK(scalar(3).rank() == 0);
  CHECK_THROWS_WITH_AS(full({2}, 0.5, DType::int64, Device::cpu, {"a.cpp", 7}),
                       "full: the number 0.5 does not fit int64; use another dtype, such as float32 "
                       "(a.cpp:7)",
                       DTypeError);
  CHECK_THROWS_AS(full({2}, 3e9, DType::int32), DTypeError);
  CHECK_THROWS_AS(full({2}, int64_t{3000000000}, DType::int32), DTypeError);
  CHECK_THROWS_AS(zeros({-1}), ShapeError);
}

TEST_CASE("creation: arange") {
  CHECK(arange(3).to_vector<int64_t>() == Ints{0, 1, 2});
  CHECK(arange(3).dtype() == DType::int64);
  CHECK(arange(3.0).dtype() == DType::float32);
  CHECK(arange(3, DType::float64).dtype() == DType::float64);
  CHECK(arange(5, 0, -2).to_vector<int64_t>() == Ints{5, 3, 1});
  CHECK(values(arange(0, 1, 0.25)) == Doubles{0, 0.25, 0.5, 0.75});
  CHECK(arange(2, 2).numel() == 0);
  CHECK(arange(9007199254740993, 9007199254740995).to_vector<int64_t>() == Ints{9007199254740993, 9007199254740994});
  CHECK(arange(INT64_MAX - 3, INT64_MAX).numel() == 3);
  CHECK(arange(INT64_MIN, INT64_MAX, INT64_MAX).to_vector<int64_t>() == Ints{INT64_MIN, -1, INT64_MAX - 1});
  CHECK(arange(INT64_MAX, INT64_MIN, INT64_MIN).to_vector<int64_t>() == Ints{INT64_MAX, -1});
  CHECK_THROWS_AS(arange(INT64_MIN, INT64_MAX), MemoryError);
  CHECK_THROWS_AS(arange(0., 1e300), MemoryError);
  CHECK(arange(2147483646, 2147483648, 1, DType::int32).to_vector<int64_t>() == Ints{2147483646, 2147483647});
  CHECK_THROWS_WITH_AS(arange(3000000000, 3000000003, 1, DType::int32), doctest::Contains("does not fit int32"),
                       DTypeError);
  CHECK_THROWS_AS(arange(2147483646, 2147483649, 1, DType::int32), DTypeError);
  CHECK_THROWS_AS(arange(0., 4e9, 1e9, DType::int32), DTypeError);
  CHECK_THROWS_WITH_AS(arange(0, 1.25, 0.25, DType::int64), doctest::Contains("the number 0.25 does not fit"),
                       DTypeError);
  CHECK_THROWS_WITH_AS(arange(0., NAN), doctest::Contains("must be finite"), ValueError);
  CHECK_THROWS_AS(arange(0., INFINITY), ValueError);
  CHECK(arange(0).numel() == 0);
  CHECK_THROWS_WITH_AS(arange(0, 3, 0, DType::int64, {"a.cpp", 7}),
                       "arange: step is 0; it must lead from start to stop (a.cpp:7)", ValueError);
  CHECK_THROWS_WITH_AS(arange(0, 3, -1, {}, {"a.cpp", 7}),
                       "arange: step -1 leads away from stop: start is 0, stop 3 (a.cpp:7)", ValueError);
}

TEST_CASE("creation: linspace and eye") {
  CHECK(values(linspace(0, 1, 5)) == Doubles{0, 0.25, 0.5, 0.75, 1});
  CHECK(values(linspace(0, 0.9, 8, DType::float64)).back() == 0.9);
  CHECK(values(linspace(3, 9, 1)) == Doubles{3});
  CHECK(linspace(0, 1, 0).numel() == 0);
  CHECK_THROWS_AS(linspace(0, 1, -1), ValueError);
  CHECK(values(eye(2)) == Doubles{1, 0, 0, 1});
  CHECK(values(eye(2, 3, DType::int64)) == Doubles{1, 0, 0, 0, 1, 0});
  CHECK(values(eye(3, 2)) == Doubles{1, 0, 0, 1, 0, 0});
  CHECK(eye(0).shape() == Shape{0, 0});
}

TEST_CASE("creation: from the caller's numbers") {
  CHECK(tensor({1.5, 2.5}).dtype() == DType::float32);
  CHECK(tensor({1, 2, 3, 4}, {2, -1}).shape() == Shape{2, 2});
  CHECK(tensor({3, 1}, DType::int64).to_vector<int64_t>() == Ints{3, 1});
  CHECK(tensor(std::vector<bool>{true, false}).to_vector<bool>() == Bools{true, false});
  CHECK(tensor(std::vector<double>{1, 2}).dtype() == DType::float64);
  CHECK(tensor(std::vector<int64_t>{}, {0, 2}).shape() == Shape{0, 2});
  const float numbers[] = {1, 2, 3};
  CHECK(values(from_span(std::span<const float>(numbers))) == Doubles{1, 2, 3});
  CHECK_THROWS_WITH_AS(tensor({1, 2, 3}, {2, 2}, DType::float32, {"a.cpp", 7}),
                       "tensor: shape [2, 2] does not hold the 3 elements of [3] (a.cpp:7)", ShapeError);
  CHECK_THROWS_AS(tensor({1.5}, DType::int64), DTypeError);
}

TEST_CASE("creation: from_memory shares, and keeps its owner alive") {
  auto owner = std::make_shared<std::vector<double>>(Doubles{1, 2, 3, 4});
  const std::weak_ptr<void> alive = owner;
  {
    const Tensor x = from_memory(owner->data(), {2, 2}, owner);
    (*owner)[3] = 9;
    owner.reset();
    CHECK(values(x.select(0, 1)) == Doubles{3, 9});
    CHECK_FALSE(alive.expired());
  }
  CHECK(alive.expired());
}
