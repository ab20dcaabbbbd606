/// Sizes that 64 bits cannot count, or that no machine has memory for, are errors before anything is written.

#include <doctest/doctest.h>

#include <cstdint>

#include <linnet/linnet.h>

using namespace linnet;

namespace {

/// A tensor of so many elements, all the same one in memory.
Tensor expanded(int64_t count) { return zeros({1}).expand({count}); }

constexpr int64_t kHuge = int64_t{1} << 62;

}  // namespace

TEST_CASE("overflow: results with more elements than 64 bits can count") {
  CHECK_THROWS_AS(pad(ones({5}), {INT64_MAX, INT64_MAX}), MemoryError);
  CHECK_THROWS_AS(pad(ones({5}), {0, INT64_MAX}, PadMode::replicate), MemoryError);
  CHECK_THROWS_AS(diag(ones({2}), INT64_MIN), MemoryError);
  const Tensor x = expanded(kHuge);
  CHECK_THROWS_AS(concat({x, x}), MemoryError);
  CHECK_THROWS_AS(concat({x, x, x, x}), MemoryError);
  CHECK_THROWS_AS(bincount(tensor<int64_t>({INT64_MAX})), MemoryError);
  CHECK_THROWS_AS(repeat_interleave(ones({1}), tensor<int64_t>({INT64_MAX})), MemoryError);
  CHECK_THROWS_AS(repeat_interleave(ones({2}), tensor<int64_t>({INT64_MAX, 1})), MemoryError);
}

TEST_CASE("overflow: working memory of more bytes than 64 bits can count") {
  for (const int64_t count : {kHuge / 2, kHuge}) {
    CAPTURE(count);
    const Tensor x = expanded(count);
    CHECK_THROWS_AS(matmul(x, x), MemoryError);
  }
  CHECK_THROWS_AS(topk(expanded(int64_t{1} << 60), 1), MemoryError);
}

TEST_CASE("overflow: lists that the host makes") {
  CHECK_THROWS_AS(interpolate(zeros({1, 1, 4}), {.size = {int64_t{1} << 40}}), ValueError);
  CHECK_THROWS_AS(pool_tokens(zeros({1, 1, 4, 2}), {.kind = TokenPooling::Kind::mean, .kernel = INT64_MAX}),
                  ValueError);
}
