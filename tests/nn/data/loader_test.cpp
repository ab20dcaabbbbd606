#include <linnet/nn/data/loader.h>

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <numeric>
#include <set>
#include <thread>
#include <type_traits>

#include <linnet/core/error.h>
#include <linnet/nn/data/subset.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>

#include "tests/support/gpu.h"
#include "tests/support/threads.h"

using namespace linnet;
using linnet::test::WithThreads;

namespace {

/// Each example is its own index; the targets show the key of the batch.
class Numbers : public nn::Dataset {
 public:
  explicit Numbers(int64_t size, int64_t fails_at = -1) : size_(size), fails_at_(fails_at) {}

  int64_t size() const override { return size_; }

  nn::Batch collate(std::span<const int64_t> indices, RandomKey key) const override {
    ++collated;
    if (std::ranges::count(indices, fails_at_.load()) > 0) throw ValueError("example that fails");
    Tensor inputs = Tensor::empty({std::ssize(indices)}, DType::int64);
    std::ranges::copy(indices, inputs.mutable_data<int64_t>().begin());
    Tensor targets = Tensor::empty({2}, DType::int64);
    targets.mutable_data<int64_t>()[0] = static_cast<int64_t>(key.seed);
    targets.mutable_data<int64_t>()[1] = static_cast<int64_t>(key.stream);
    return {inputs, targets};
  }

  void grow_to(int64_t size) { size_ = size; }
  void recover() { fails_at_ = -1; }

  mutable std::atomic<int64_t> collated = 0;

 private:
  std::atomic<int64_t> size_;
  std::atomic<int64_t> fails_at_;
};

using Numbering = std::vector<int64_t>;

Numbering numbers_of(const Tensor& t) { return {t.data<int64_t>().begin(), t.data<int64_t>().end()}; }

/// Every batch of one pass: its examples, then its key.
std::vector<Numbering> pass(nn::Loader& loader) {
  std::vector<Numbering> batches;
  for (const auto& [inputs, targets] : loader) {
    batches.push_back(numbers_of(inputs));
    batches.push_back(numbers_of(targets));
  }
  return batches;
}

std::vector<Numbering> passes(nn::Loader& loader, int count) {
  std::vector<Numbering> all;
  for (int i = 0; i < count; ++i) {
    for (Numbering& batch : pass(loader)) all.push_back(std::move(batch));
  }
  return all;
}

/// The examples of one pass, one after the other.
Numbering order(nn::Loader& loader) {
  Numbering all;
  for (const nn::Batch& batch : loader) {
    const Numbering part = numbers_of(batch.inputs);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

Numbering sorted(Numbering numbers) {
  std::ranges::sort(numbers);
  return numbers;
}

Numbering counting(int64_t count) {
  Numbering all(static_cast<size_t>(count));
  std::iota(all.begin(), all.end(), int64_t{0});
  return all;
}

}  // namespace

TEST_CASE("Loader: every example once an epoch, in an order of its own each epoch") {
  const Numbers data(103);
  nn::Loader loader(data, {.batch = 10, .seed = 7});
  CHECK(loader.batches_per_epoch() == 11);
  std::set<Numbering> orders;
  for (int epoch = 0; epoch < 4; ++epoch) {
    const Numbering seen = order(loader);
    CHECK(sorted(seen) == counting(103));
    orders.insert(seen);
  }
  CHECK(orders.size() == 4);
  CHECK(orders.count(counting(103)) == 0);

  nn::Loader other(data, {.batch = 10, .seed = 8});
  CHECK(orders.count(order(other)) == 0);
}

TEST_CASE("Loader: shuffles fairly") {
  const Numbers data(4);
  nn::Loader loader(data, {.batch = 4, .seed = 1, .prefetch = 0});
  std::map<Numbering, int> counts;
  for (int epoch = 0; epoch < 2400; ++epoch) ++counts[order(loader)];
  CHECK(counts.size() == 24);
  // Each of 24 orders occurs about 100 times; five standard deviations are 49.
  for (const auto& [seen, count] : counts) CHECK(std::abs(count - 100) < 49);
}

TEST_CASE("Loader: without shuffling the order is the data's own") {
  const Numbers data(25);
  nn::Loader loader(data, {.batch = 4, .shuffle = false});
  CHECK(order(loader) == counting(25));
  CHECK(order(loader) == counting(25));
}

TEST_CASE("Loader: batches and their keys do not depend on prefetching or on threads") {
  const Numbers data(103);
  const auto all = [&](int64_t prefetch, int64_t workers) {
    nn::Loader loader(data, {.batch = 10, .seed = 3, .prefetch = prefetch, .num_workers = workers});
    return passes(loader, 3);
  };
  const std::vector<Numbering> expected = all(0, 1);
  CHECK(expected.size() == 3 * 2 * 11);
  for (const int threads : {1, 2, 4}) {
    const WithThreads with(threads);
    for (const int64_t prefetch : {0, 1, 2, 50}) {
      for (const int64_t workers : {0, 1, 2, 5}) CHECK(all(prefetch, workers) == expected);
    }
  }
  CHECK(std::set<Numbering>(expected.begin(), expected.end()).size() == expected.size());  // no key comes twice
}

namespace {

/// Examples whose first batch is finished only after two others, or after others have failed.
class LateFirst : public Numbers {
 public:
  using Numbers::Numbers;
  nn::Batch collate(std::span<const int64_t> indices, RandomKey key) const override {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (indices[0] == 0 && others < 2 && std::chrono::steady_clock::now() < give_up) std::this_thread::yield();
    try {
      nn::Batch batch = Numbers::collate(indices, key);
      ++others;
      return batch;
    } catch (const ValueError&) {
      ++others;
      throw;
    }
  }
  mutable std::atomic<int64_t> others = 0;
};

}  // namespace

TEST_CASE("Loader: several workers make batches at the same time, which come in their order") {
  const LateFirst data(12);
  nn::Loader loader(data, {.batch = 2, .shuffle = false, .prefetch = 2, .num_workers = 2});
  CHECK(numbers_of(loader.next()->inputs) == Numbering{0, 1});
  CHECK(data.others >= 3);
  CHECK(order(loader) == Numbering{2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
}

TEST_CASE("Loader: with several workers, batches from before an error come first") {
  LateFirst data(20, 3);
  data.others = 1;  // so the first batch is finished after the second has failed
  nn::Loader loader(data, {.batch = 2, .shuffle = false, .prefetch = 4, .num_workers = 2});
  CHECK(numbers_of(loader.next()->inputs) == Numbering{0, 1});
  CHECK_THROWS_WITH_AS(loader.next(), "example that fails", ValueError);
  CHECK(loader.position().batch == 1);
}

TEST_CASE("Loader: drop_last leaves the smaller batch out") {
  const Numbers data(25);
  nn::Loader all(data, {.batch = 10, .seed = 5});
  nn::Loader whole(data, {.batch = 10, .seed = 5, .drop_last = true});
  CHECK(all.batches_per_epoch() == 3);
  CHECK(whole.batches_per_epoch() == 2);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<Numbering> expected = pass(all);
    CHECK(expected[4].size() == 5);
    expected.resize(4);
    CHECK(pass(whole) == expected);
  }
}

TEST_CASE("Loader: seek goes on exactly where another loader stood") {
  const Numbers data(53);
  for (const int64_t prefetch : {0, 2}) {
    const nn::LoaderOptions options{.batch = 5, .seed = 9, .prefetch = prefetch};
    for (const int64_t taken : {0, 1, 7, 11, 12, 25}) {
      CAPTURE(taken);
      nn::Loader first(data, options);
      for (int64_t i = 0; i < taken; ++i) first.next();
      nn::Loader second(data, options);
      second.next();
      second.seek(first.position());
      CHECK(second.position().epoch == first.position().epoch);
      CHECK(second.position().batch == first.position().batch);
      CHECK(passes(second, 2) == passes(first, 2));
    }
    nn::Loader loader(data, options);
    loader.seek({3, 11});  // the end of an epoch
    CHECK_FALSE(loader.next().has_value());
    CHECK(loader.position().epoch == 4);
    CHECK_THROWS_WITH_AS(loader.seek({0, 12}), doctest::Contains("there is no batch 12 of epoch 0: an epoch has 11"),
                         ValueError);
    CHECK_THROWS_AS(loader.seek({-1, 0}), ValueError);
    CHECK_THROWS_AS(loader.seek({0, -1}), ValueError);
    CHECK(loader.position().epoch == 4);
  }
}

TEST_CASE("Loader: breaking off leaves the rest of the epoch for the next loop") {
  const Numbers data(40);
  nn::Loader loader(data, {.batch = 4, .seed = 2});
  Numbering seen;
  for (const nn::Batch& batch : loader) {
    const Numbering part = numbers_of(batch.inputs);
    seen.insert(seen.end(), part.begin(), part.end());
    if (loader.position().batch == 3) break;
  }
  const Numbering rest = order(loader);
  CHECK(seen.size() == 12);
  seen.insert(seen.end(), rest.begin(), rest.end());
  CHECK(sorted(seen) == counting(40));
}

TEST_CASE("Loader: ends cleanly in the middle of an epoch, and prepares no more than it was told to") {
  const Numbers data(1000);
  {
    nn::Loader loader(data, {.batch = 1, .prefetch = 3});
    for (int i = 0; i < 5; ++i) loader.next();
  }
  CHECK(data.collated >= 5);
  CHECK(data.collated <= 5 + 3 + 1);
  data.collated = 0;
  nn::Loader(data, {.batch = 1, .prefetch = 3, .num_workers = 4}).next();
  CHECK(data.collated <= 1 + 3 + 4);
  for (int i = 0; i < 50; ++i) nn::Loader(data, {.batch = 1, .prefetch = 2}).next();
  nn::Loader never_used(data, {});
}

TEST_CASE("Loader: what the data set throws reaches the caller at the batch it belongs to") {
  const Numbers data(20, 11);
  for (const int64_t prefetch : {0, 1, 100}) {
    CAPTURE(prefetch);
    nn::Loader loader(data, {.batch = 2, .shuffle = false, .prefetch = prefetch});
    for (int64_t i = 0; i < 5; ++i) CHECK(numbers_of(loader.next()->inputs) == Numbering{2 * i, 2 * i + 1});
    CHECK_THROWS_WITH_AS(loader.next(), "example that fails", ValueError);
    CHECK_THROWS_AS(loader.next(), ValueError);
    CHECK(loader.position().batch == 5);
    loader.seek({0, 6});
    CHECK(numbers_of(loader.next()->inputs) == Numbering{12, 13});
  }
}

TEST_CASE("Loader: a batch that failed is tried again") {
  for (const int64_t prefetch : {0, 1, 100}) {
    Numbers data(6, 2);
    nn::Loader loader(data, {.batch = 2, .shuffle = false, .prefetch = prefetch});
    loader.next();
    CHECK_THROWS_AS(loader.next(), ValueError);
    data.recover();
    CHECK(order(loader) == Numbering{2, 3, 4, 5});
  }
}

TEST_CASE("Loader: a data set that grows is longer from the next epoch on") {
  for (const int64_t prefetch : {0, 1, 100}) {
    Numbers data(4);
    nn::Loader loader(data, {.batch = 3, .shuffle = false, .prefetch = prefetch});
    CHECK(numbers_of(loader.next()->inputs) == Numbering{0, 1, 2});
    data.grow_to(12);
    CHECK(loader.batches_per_epoch() == 2);
    CHECK(order(loader) == Numbering{3});
    CHECK(loader.batches_per_epoch() == 4);
    CHECK(order(loader) == counting(12));
  }
}

TEST_CASE("Loader: a position inside an epoch is of a data set of the same size") {
  Numbers data(10);
  nn::Loader loader(data, {.batch = 2});
  for (int64_t i = 0; i < 3; ++i) loader.next();
  CHECK(loader.position().examples == 10);
  data.grow_to(12);
  CHECK(loader.position().examples == 10);  // those of this epoch
  const nn::Loader::Position inside = loader.position();
  nn::Loader other(data, {.batch = 2});
  CHECK_THROWS_WITH_AS(other.seek(inside),
                       doctest::Contains("inside an epoch of 10 examples, but the data set has 12; finish the epoch "
                                         "with the 10, and change the data set between epochs"),
                       ValueError);
  CHECK(other.position().batch == 0);
  other.seek({inside.epoch, inside.batch});  // a position without the number is taken as it is
  order(loader);
  CHECK(loader.position().examples == 12);
  data.grow_to(20);
  other.seek({1, 0, 12});
  CHECK(other.position().examples == 20);
  other.next();
  data.grow_to(40);
  other.seek({1, 15, 40});  // not of the epoch that is under way, which has ten batches
  CHECK(other.position().batch == 15);
}

TEST_CASE("Loader: batches need no targets") {
  class Unlabelled : public nn::Dataset {
   public:
    int64_t size() const override { return 3; }
    nn::Batch collate(std::span<const int64_t> indices, RandomKey) const override {
      return {.inputs = zeros({std::ssize(indices)}), .targets = {}};
    }
  };
  const Unlabelled data;
  for (const int64_t prefetch : {0, 2}) {
    const nn::Batch batch = *nn::Loader(data, {.batch = 3, .prefetch = prefetch}).next();
    CHECK(batch.inputs.shape() == Shape{3});
    CHECK_FALSE(batch.targets.defined());
  }
}

static_assert(!std::is_constructible_v<nn::Loader, Numbers, nn::LoaderOptions>, "a temporary data set");

TEST_CASE("Loader: options that cannot work are refused") {
  const Numbers none(0), few(3);
  CHECK_THROWS_WITH_AS(nn::Loader(none, {.batch = 2}), doctest::Contains("Loader: the data set is empty"),
                       ValueError);
  CHECK_THROWS_WITH_AS(nn::Loader(few, {.batch = 0}), doctest::Contains("batch must be at least 1, not 0"),
                       ValueError);
  CHECK_THROWS_WITH_AS(nn::Loader(few, {.num_workers = -2}),
                       doctest::Contains("num_workers must be at least 0, not -2"), ValueError);
  CHECK_THROWS_WITH_AS(nn::Loader(few, {.prefetch = -1}), doctest::Contains("prefetch must be at least 0, not -1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(nn::Loader(few, {.batch = 4, .drop_last = true}),
                       doctest::Contains("drop_last leaves no batch: 3 examples, batch 4"), ValueError);
  CHECK(nn::Loader(few, {.batch = 4}).batches_per_epoch() == 1);
  nn::Loader all(few, {.batch = INT64_MAX});
  CHECK(all.batches_per_epoch() == 1);
  CHECK(all.next()->inputs.size(0) == 3);
}

TEST_CASE("Loader: a device that does not answer is an error of the batch") {
  if (!test::lacks_gpu("batches for a device that does not answer")) return;
  const Numbers data(10);
  for (const int64_t prefetch : {0, 2}) {
    nn::Loader loader(data, {.batch = 4, .prefetch = prefetch, .device = Device::cuda});
    CHECK_THROWS_AS(loader.next(), DeviceError);
  }
}

TEST_CASE("gpu: Loader: batches arrive on the GPU as they leave the CPU") {
  if (!test::has_gpu("batches for the GPU")) return;
  const nn::TensorDataset data({arange(1000), arange(1000) * 2, arange(1000) * 3});
  nn::Loader here(data, {.batch = 7, .seed = 3}), there(data, {.batch = 7, .seed = 3, .device = Device::cuda});
  for (const nn::Batch& expected : here) {
    const nn::Batch batch = *there.next();
    const auto check = [](const Tensor& on_gpu, const Tensor& on_cpu) {
      REQUIRE(on_gpu.device() == Device::cuda);
      CHECK(on_gpu.to_vector<int64_t>() == on_cpu.to_vector<int64_t>());
    };
    check(batch.inputs, expected.inputs);
    check(batch.targets, expected.targets);
    REQUIRE(batch.others.size() == 1);
    check(batch.others[0], expected.others[0]);
  }
}

TEST_CASE("a batch holds further tensors beside inputs and targets") {
  struct Masked : nn::Dataset {
    int64_t size() const override { return 4; }
    nn::Batch collate(std::span<const int64_t> indices, RandomKey) const override {
      const Tensor x = tensor(std::vector<int64_t>(indices.begin(), indices.end()));
      return {x, x * 2, {gt(x, 1)}};
    }
  };
  const Masked data;
  nn::Loader loader(data, {.batch = 4, .shuffle = false});
  for (const auto& batch : loader) {
    const auto& [x, y] = batch;
    CHECK(x.to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2, 3});
    CHECK(y.to_vector<int64_t>() == std::vector<int64_t>{0, 2, 4, 6});
    REQUIRE(batch.others.size() == 1);
    CHECK(batch.others[0].to_vector<bool>() == std::vector<bool>{false, false, true, true});
  }
}
