/// Batches of examples of similar lengths.

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <set>

#include <linnet/core/error.h>
#include <linnet/core/random/generator.h>
#include <linnet/nn/data/loader.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/random.h>

#include "tests/support/threads.h"

using namespace linnet;
using linnet::test::WithThreads;

namespace {

using Batches = std::vector<std::vector<int64_t>>;

/// Each example is its own index.
class Numbered : public nn::Dataset {
 public:
  explicit Numbered(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  nn::Batch collate(std::span<const int64_t> indices, RandomKey) const override {
    return {.inputs = tensor(std::vector<int64_t>(indices.begin(), indices.end())), .targets = {}};
  }
  void grow_to(int64_t size) { size_ = size; }

 private:
  std::atomic<int64_t> size_;
};

/// Lengths from `least` to `most`, about uniform, such as ListOps' from 500 to 2,000.
std::vector<int64_t> lengths_of(int64_t count, int64_t least = 500, int64_t most = 2000) {
  Generator rng(17);
  return randint(least, most + 1, {count}, rng).to_vector<int64_t>();
}

Batches epoch_of(nn::Loader& loader) {
  Batches batches;
  for (const nn::Batch& batch : loader) batches.push_back(batch.inputs.to_vector<int64_t>());
  return batches;
}

std::vector<int64_t> joined(const Batches& batches) {
  std::vector<int64_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

std::vector<int64_t> sorted(std::vector<int64_t> numbers) {
  std::ranges::sort(numbers);
  return numbers;
}

std::vector<int64_t> first_numbers(int64_t count) {
  std::vector<int64_t> all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

int64_t longest_of(const std::vector<int64_t>& batch, const std::vector<int64_t>& lengths) {
  int64_t longest = 0;
  for (const int64_t example : batch) longest = std::max(longest, lengths[static_cast<size_t>(example)]);
  return longest;
}

/// The mean of |a[i] − b[i]|.
double mean_difference(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  const size_t count = std::min(a.size(), b.size());
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += std::abs(static_cast<double>(a[i] - b[i]));
  return sum / static_cast<double>(count);
}

/// The share of tokens that are padding.
double padding_of(const Batches& batches, const std::vector<int64_t>& lengths) {
  double tokens = 0, padded = 0;
  for (const auto& batch : batches) {
    for (const int64_t example : batch) tokens += static_cast<double>(lengths[static_cast<size_t>(example)]);
    padded += static_cast<double>(longest_of(batch, lengths) * std::ssize(batch));
  }
  return 1 - tokens / padded;
}

}  // namespace

TEST_CASE("Loader: batches by length hold every example once an epoch, and little padding") {
  const Numbered data(9610);
  const std::vector<int64_t> lengths = lengths_of(9610);
  nn::Loader plain(data, {.batch = 32, .seed = 3}), loader(data, {.batch = 32, .seed = 3, .lengths = lengths});
  CHECK(loader.batches_per_epoch() == 301);
  CHECK(padding_of(epoch_of(plain), lengths) > 0.33);
  std::set<Batches> epochs;
  std::set<std::vector<int64_t>> batches;
  std::vector<int64_t> before;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const Batches seen = epoch_of(loader);
    REQUIRE(seen.size() == 301);
    CHECK(sorted(joined(seen)) == first_numbers(9610));
    CHECK(padding_of(seen, lengths) < 0.02);
    for (size_t i = 0; i < 300; ++i) CHECK(seen[i].size() == 32);
    CHECK(seen.back().size() == 10);
    epochs.insert(seen);
    for (const auto& batch : seen) batches.insert(sorted(batch));
    // The order of the batches is random, and different in each epoch.
    std::vector<int64_t> longest;
    for (size_t i = 0; i < 300; ++i) longest.push_back(longest_of(seen[i], lengths));
    CHECK(mean_difference(longest, {longest.begin() + 1, longest.end()}) > 400);  // about 500, a third of the range
    if (epoch > 0) CHECK(mean_difference(longest, before) > 400);
    before = longest;
  }
  CHECK(epochs.size() == 3);
  CHECK(batches.size() == size_t{3} * 301);  // an example is with different ones in each epoch
}

TEST_CASE("Loader: a few batches by length are of four windows, so that they change from epoch to epoch") {
  const Numbered data(64);
  const std::vector<int64_t> lengths = lengths_of(64);
  nn::Loader loader(data, {.batch = 4, .seed = 3, .lengths = lengths});
  std::set<std::vector<int64_t>> batches;
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (const auto& batch : epoch_of(loader)) batches.insert(sorted(batch));
  }
  CHECK(batches.size() > 60);
  nn::Loader one(data, {.batch = 64, .lengths = lengths}), more(data, {.batch = 100, .lengths = lengths});
  CHECK(sorted(joined(epoch_of(one))) == first_numbers(64));
  CHECK(sorted(joined(epoch_of(more))) == first_numbers(64));
}

TEST_CASE("Loader: batches by length depend on the seed and the epoch alone") {
  const Numbered data(203);
  const std::vector<int64_t> lengths = lengths_of(203, 1, 9);  // many of them are equal
  const auto epochs = [&](uint64_t seed, int64_t prefetch, int64_t workers) {
    nn::Loader loader(data,
                      {.batch = 5, .seed = seed, .prefetch = prefetch, .num_workers = workers, .lengths = lengths});
    Batches all;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (auto& batch : epoch_of(loader)) all.push_back(std::move(batch));
    }
    return all;
  };
  const Batches expected = epochs(3, 0, 1);
  CHECK(expected != epochs(4, 0, 1));
  for (const int threads : {1, 2, 4}) {
    const WithThreads with(threads);
    for (const int64_t workers : {0, 1, 3}) CHECK(epochs(3, 2, workers) == expected);
  }
  for (const int64_t taken : {0, 1, 17, 40, 41, 42, 60}) {
    CAPTURE(taken);
    nn::Loader loader(data, {.batch = 5, .seed = 3, .lengths = lengths});
    loader.seek({taken / 41, taken % 41});
    Batches rest;
    while (rest.size() + static_cast<size_t>(taken) < expected.size()) {
      if (const auto batch = loader.next()) rest.push_back(batch->inputs.to_vector<int64_t>());
    }
    CHECK(rest == Batches(expected.begin() + taken, expected.end()));
  }
}

TEST_CASE("Loader: what drop_last leaves out of batches by length is of any length") {
  const Numbered data(205);
  const std::vector<int64_t> lengths = lengths_of(205);
  const nn::LoaderOptions options{.batch = 10, .seed = 5, .lengths = lengths};
  nn::LoaderOptions dropping = options;
  dropping.drop_last = true;
  nn::Loader all(data, options), whole(data, dropping);
  double longest = 0;
  for (int epoch = 0; epoch < 200; ++epoch) {
    Batches expected = epoch_of(all);
    for (const int64_t example : expected.back())
      longest += static_cast<double>(lengths[static_cast<size_t>(example)]);
    expected.pop_back();
    CHECK(epoch_of(whole) == expected);
  }
  CHECK(std::abs(longest / 1000 - 1250) < 100);
}

TEST_CASE("Loader: without shuffling, the longest examples come first, and equals in the data's order") {
  const Numbered data(7);
  nn::Loader loader(data, {.batch = 3, .shuffle = false, .lengths = {4, 9, 4, 1, 9, 4, 2}});
  for (int epoch = 0; epoch < 2; ++epoch) CHECK(epoch_of(loader) == Batches{{1, 4, 0}, {2, 5, 6}, {3}});
}

TEST_CASE("Loader: lengths that do not fit the data set are refused") {
  Numbered data(3);
  CHECK_THROWS_WITH_AS(nn::Loader(data, {.lengths = {1, 2}}),
                       doctest::Contains("Loader: there are 2 lengths and 3 examples; give one for each, or leave"),
                       ValueError);
  CHECK_THROWS_WITH_AS(nn::Loader(data, {.lengths = {1, -2, 3}}),
                       doctest::Contains("lengths must be at least 0, but example 1 has -2"), ValueError);
  nn::Loader loader(data, {.batch = 2, .lengths = {1, 2, 3}});
  CHECK(epoch_of(loader).size() == 2);
  data.grow_to(4);
  CHECK_THROWS_WITH_AS(loader.next(), doctest::Contains("there are 3 lengths and 4 examples"), ValueError);
}
