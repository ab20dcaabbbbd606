#include <linnet/nn/layers/heads.h>

#include <doctest/doctest.h>
#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>

using namespace linnet;

TEST_CASE("split_qkv: queries, keys and values of each head, and merge_heads puts them back") {
  const Tensor x = arange(2 * 3 * 12).reshape({2, 3, 12});
  const auto [q, k, v] = nn::split_qkv(x, 2);
  REQUIRE(k.shape() == Shape{2, 2, 3, 2});
  CHECK(k.select(0, 1).select(0, 1).select(0, 2).to_vector<int64_t>() == std::vector<int64_t>{66, 67});
  CHECK(nn::merge_heads(v).to_vector<int64_t>() == x.narrow(2, 8, 4).to_vector<int64_t>());
}

TEST_CASE("heads that do not divide a width are refused") {
  CHECK_THROWS_WITH_AS(
      nn::split_qkv(zeros({1, 2, 13}), 2, {"a.cpp", 7}),
      "split_qkv: [1, 2, 13] cannot be split: it must be [batch, tokens, width], the width a multiple "
      "of 3 · 2 heads (a.cpp:7)",
      ShapeError);
  CHECK_THROWS_WITH_AS(nn::split_heads(zeros({1, 2, 13}), 4), doctest::Contains("a multiple of 4 heads"), ShapeError);
  CHECK_THROWS_AS(nn::split_heads(zeros({2, 12}), 4), ShapeError);
  CHECK_THROWS_AS(nn::split_heads(zeros({1, 2, 12}), 0), ShapeError);
}
