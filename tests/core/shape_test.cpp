#include <linnet/core/shape.h>

#include <utility>

#include <doctest/doctest.h>
#include <linnet/core/error.h>

namespace linnet::test {

TEST_CASE("shape: entries, in place and on the heap") {
  for (const int rank : {0, 1, 6, 7, 12}) {
    CAPTURE(rank);
    Shape shape;
    for (int d = 0; d < rank; ++d) shape.push_back(d + 1);
    CHECK(shape.rank() == rank);
    for (int d = 0; d < rank; ++d) CHECK(shape[d] == d + 1);

    Shape copy = shape;
    CHECK(copy == shape);
    if (rank > 0) {
      copy[0] = 99;
      CHECK(shape[0] == 1);
      CHECK_FALSE(copy == shape);
    }
    const Shape moved = std::move(copy);
    CHECK(moved.rank() == rank);
    CHECK(copy == Shape{});
    copy = shape;
    CHECK(copy == shape);
    Shape target{9};
    target = std::move(copy);
    CHECK(target == shape);
    CHECK(copy == Shape{});
  }
}

TEST_CASE("shape: 64 entries at most") {
  CHECK(Shape::filled(64, 1).rank() == 64);
  CHECK_THROWS_WITH_AS(Shape::filled(65, 1), "a tensor has at most 64 dims, not 65", ShapeError);
  Shape longest = Shape::filled(64, 1);
  CHECK_THROWS_AS(longest.push_back(1), ShapeError);
  CHECK(longest.rank() == 64);
}

TEST_CASE("shape: insert and erase") {
  Shape shape{2, 3, 4, 5, 6, 7};
  shape.insert(0, 1);
  CHECK(shape == Shape{1, 2, 3, 4, 5, 6, 7});
  shape.insert(3, 0);
  CHECK(shape == Shape{1, 2, 3, 0, 4, 5, 6, 7});
  shape.erase(3);
  shape.erase(6);
  shape.erase(0);
  CHECK(shape == Shape{2, 3, 4, 5, 6});
}

TEST_CASE("shape: equality needs the same rank") {
  CHECK_FALSE(Shape{2, 3} == Shape{2, 3, 1});
  CHECK_FALSE(Shape{} == Shape{1});
  CHECK(Shape{} == Shape{});
}

TEST_CASE("shape: numel, strides and text") {
  CHECK(Shape{}.numel() == 1);
  CHECK(Shape{2, 3, 4}.numel() == 24);
  CHECK(Shape{2, 0, 4}.numel() == 0);
  CHECK(contiguous_strides({2, 3, 4}) == Strides{12, 4, 1});
  CHECK(contiguous_strides({}) == Strides{});
  CHECK(contiguous_strides({2, 0, 4}) == Strides{4, 4, 1});
  CHECK(Shape::filled(3, 7) == Shape{7, 7, 7});
  CHECK(to_string(Shape{2, -1, 3}) == "[2, -1, 3]");
  CHECK(to_string(Shape{}) == "[]");
}

TEST_CASE("shape: what 64 bits cannot count, in any order and beside a size of 0") {
  constexpr int64_t kLarge = int64_t{1} << 40;
  for (const Shape& shape : {Shape{kLarge, kLarge}, Shape{0, kLarge, kLarge}, Shape{kLarge, kLarge, 0}}) {
    CAPTURE(to_string(shape));
    CHECK_FALSE(checked_product(shape, 1));
    CHECK_THROWS_AS(checked_numel(shape), ShapeError);
  }
  CHECK(checked_numel({0, kLarge, 1000}) == 0);
  CHECK(checked_product({kLarge, 1000}, 8) == kLarge * 8000);
  CHECK_FALSE(checked_product({kLarge, 1 << 20}, 8));
}

TEST_CASE("shape: broadcasting") {
  CHECK(broadcast_shapes({2, 3}, {2, 3}) == Shape{2, 3});
  CHECK(broadcast_shapes({2, 1}, {3}) == Shape{2, 3});
  CHECK(broadcast_shapes({}, {4, 1}) == Shape{4, 1});
  CHECK(broadcast_shapes({5, 1, 3}, {1, 4, 1}) == Shape{5, 4, 3});
  CHECK(broadcast_shapes({0, 1}, {1, 3}) == Shape{0, 3});
  CHECK(broadcast_shapes({1}, {0}) == Shape{0});
  CHECK_THROWS_AS(broadcast_shapes({2, 3}, {2}), ShapeError);
  CHECK_THROWS_AS(broadcast_shapes({0}, {2}), ShapeError);
}

TEST_CASE("shape: dims count from either end") {
  CHECK(normalise_dim(0, 3) == 0);
  CHECK(normalise_dim(-1, 3) == 2);
  CHECK(normalise_dim(-3, 3) == 0);
  CHECK_THROWS_AS(normalise_dim(3, 3), ShapeError);
  CHECK_THROWS_AS(normalise_dim(-4, 3), ShapeError);
  CHECK_THROWS_AS(normalise_dim(0, 0), ShapeError);
}

}  // namespace linnet::test
