#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include <linnet/core/error.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/attention/lsh_attention.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/ops/attention/attention_reference.h"

using namespace linnet;
using namespace linnet::test;

TEST_CASE("lsh_buckets are the largest of [xΩ, −xΩ], the first of equal ones") {
  const Tensor x = normal({2, 3, 50, 4}, 1);
  Generator rng(2);
  const Tensor rotations = lsh_rotations(3, 4, 2, 6, rng, DType::float64);
  CHECK(rotations.shape() == Shape{3, 4, 2, 3});
  const std::vector<int64_t> buckets = lsh_buckets(x, rotations).to_vector<int64_t>();
  for (int64_t b = 0; b < 2; ++b) {
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t r = 0; r < 2; ++r) {
        const Tensor turned = matmul(x.select(0, b).select(0, h), rotations.select(0, h).select(1, r));
        for (int64_t i = 0; i < 50; ++i) {
          const std::vector<double> y = turned.select(0, i).to_vector<double>();
          std::vector<double> both = y;
          for (const double value : y) both.push_back(-value);
          const auto largest = std::max_element(both.begin(), both.end()) - both.begin();
          CHECK(buckets[static_cast<size_t>(((b * 3 + h) * 2 + r) * 50 + i)] == largest);
        }
      }
    }
  }
  CHECK(max(lsh_buckets(x, zeros({3, 4, 2, 3}, DType::float64))).item<int64_t>() == 0);
}

TEST_CASE("lsh_bucket_count is even, and the chunk at least 1") {
  CHECK(lsh_bucket_count(1, 64) == 2);
  CHECK(lsh_bucket_count(64 * 7, 64) == 6);
  CHECK(lsh_bucket_count(64 * 7 + 1, 64) == 8);
  CHECK(lsh_bucket_count(64, std::numeric_limits<int64_t>::max()) == 2);
  CHECK(lsh_bucket_count(std::numeric_limits<int64_t>::max(), 4) == int64_t{1} << 61);
  CHECK_THROWS_WITH_AS(lsh_bucket_count(64, 0, {"a.cpp", 7}),
                       "lsh_bucket_count: chunk is 0; it must be at least 1 (a.cpp:7)", ValueError);
}

TEST_CASE("lsh_rotations and lsh_buckets say what is wrong") {
  Generator rng(1);
  CHECK_THROWS_WITH_AS(lsh_rotations(1, 2, 1, 3, rng), doctest::Contains("1 rounds of hashing to 3 buckets"),
                       ValueError);
  const Tensor x = zeros({2, 3, 6, 4}, DType::float64), rotations = zeros({2, 4, 1, 1}, DType::float64);
  CHECK_THROWS_WITH_AS(lsh_buckets(x, rotations),
                       doctest::Contains("rotations[2, 4, 1, 1] does not fit x[2, 3, 6, 4]"), ShapeError);
}
