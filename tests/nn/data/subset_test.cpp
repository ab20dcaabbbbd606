#include <linnet/nn/data/subset.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include <linnet/core/error.h>
#include <linnet/nn/data/loader.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/creation.h>

#include "tests/support/gpu.h"

using namespace linnet;

namespace {

using Indices = std::vector<int64_t>;

std::vector<int64_t> sizes_of(const std::vector<nn::Subset>& parts) {
  std::vector<int64_t> sizes;
  for (const nn::Subset& part : parts) sizes.push_back(part.size());
  return sizes;
}

}  // namespace

TEST_CASE("TensorDataset: a batch is the rows of each tensor") {
  const Tensor x = arange(12).reshape({4, 3}), y = arange(4) * 10, z = arange(4) + 100;
  const nn::TensorDataset data({x, y, z});
  CHECK(data.size() == 4);
  const Indices indices{3, 0, 3};
  const nn::Batch batch = data.collate(indices, {});
  CHECK(batch.inputs.to_vector<int64_t>() == Indices{9, 10, 11, 0, 1, 2, 9, 10, 11});
  CHECK(batch.targets.to_vector<int64_t>() == Indices{30, 0, 30});
  REQUIRE(batch.others.size() == 1);
  CHECK(batch.others[0].to_vector<int64_t>() == Indices{103, 100, 103});
  CHECK_FALSE(nn::TensorDataset({x}).collate(indices, {}).targets.defined());
  CHECK_THROWS_AS(data.collate(Indices{4}, {}), IndexError);
  CHECK_THROWS_WITH_AS(nn::TensorDataset({x, arange(3)}),
                       doctest::Contains("[4, 3] and [3]; all must have the same number"), ShapeError);
  CHECK_THROWS_AS(nn::TensorDataset({scalar(1)}), ShapeError);
  CHECK_THROWS_AS(nn::TensorDataset({}), ValueError);
}

TEST_CASE("gpu: TensorDataset: tensors on different devices") {
  if (!linnet::test::has_gpu("data sets of tensors on the GPU")) return;
  const nn::TensorDataset data({arange(4).to(Device::cuda), arange(4) * 10, (arange(4) + 100).to(Device::cuda)});
  const nn::Batch batch = data.collate(Indices{3, 0}, {});
  CHECK(batch.inputs.device() == Device::cuda);
  CHECK(batch.targets.device() == Device::cpu);
  CHECK(batch.inputs.to_vector<int64_t>() == Indices{3, 0});
  CHECK(batch.targets.to_vector<int64_t>() == Indices{30, 0});
  CHECK(batch.others.at(0).to_vector<int64_t>() == Indices{103, 100});
}

TEST_CASE("Subset: its examples are those of the data set, by their numbers") {
  const nn::TensorDataset data({arange(10) * 10});
  const nn::Subset odd(data, {1, 3, 5, 7, 9});
  CHECK(odd.size() == 5);
  CHECK(odd.collate(Indices{4, 0}, {}).inputs.to_vector<int64_t>() == Indices{90, 10});
  const nn::Subset of_subset(odd, {4, 2});
  CHECK(of_subset.collate(Indices{0, 1}, {}).inputs.to_vector<int64_t>() == Indices{90, 50});
  CHECK_THROWS_WITH_AS(odd.collate(Indices{5}, {}), doctest::Contains("example 5 of 5"), IndexError);
  CHECK_THROWS_AS(odd.collate(Indices{-1}, {}), IndexError);
  CHECK_THROWS_WITH_AS(nn::Subset(data, {0, 10}), doctest::Contains("example 10 of 10"), IndexError);
  CHECK_THROWS_AS(nn::Subset(data, {-1}), IndexError);
}

TEST_CASE("random_split: parts of the sizes asked for, each example once, by the seed alone") {
  const nn::TensorDataset data({arange(103)});
  const auto parts = nn::random_split(data, {0.7, 0.2, 0.1}, 5);
  CHECK(sizes_of(parts) == Indices{73, 20, 10});  // 72.1, 20.6, 10.3: the one left over goes to the first
  CHECK(sizes_of(nn::random_split(data, {100, 3}, 5)) == Indices{100, 3});
  CHECK(sizes_of(nn::random_split(data, {0.3, 0.3, 0.3, 0.1}, 5)) == Indices{31, 31, 31, 10});
  CHECK(sizes_of(nn::random_split(data, {103, 0}, 5)) == Indices{103, 0});
  Indices all;
  for (const nn::Subset& part : parts) all.insert(all.end(), part.indices().begin(), part.indices().end());
  CHECK_FALSE(std::ranges::is_sorted(all));
  std::ranges::sort(all);
  CHECK(all == arange(103).to_vector<int64_t>());

  CHECK(nn::random_split(data, {0.5, 0.5}, 5)[0].indices() == nn::random_split(data, {0.5, 0.5}, 5)[0].indices());
  CHECK(nn::random_split(data, {0.5, 0.5}, 5)[0].indices() != nn::random_split(data, {0.5, 0.5}, 6)[0].indices());
}

TEST_CASE("random_split: its order is not that of a loader with the same seed") {
  const nn::TensorDataset data({arange(50)});
  nn::Loader loader(data, {.batch = 50, .seed = 7});
  const Indices split = nn::random_split(data, {50}, 7)[0].indices();
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (const auto& [x, y] : loader) CHECK(x.to_vector<int64_t>() != split);
  }
}

TEST_CASE("random_split: lengths that do not fit") {
  const nn::TensorDataset data({arange(10)});
  CHECK_THROWS_WITH_AS(nn::random_split(data, {8, 3}, 1),
                       doctest::Contains("the lengths sum to 11; they must be at least 0, and sum to 10"),
                       ValueError);
  CHECK_THROWS_AS(nn::random_split(data, {0.8, 0.3}, 1), ValueError);
  CHECK_THROWS_AS(nn::random_split(data, {11, -1}, 1), ValueError);
  CHECK_THROWS_AS(nn::random_split(data, {1.5, -0.5}, 1), ValueError);
  CHECK_THROWS_AS(nn::random_split(data, {}, 1), ValueError);
}
