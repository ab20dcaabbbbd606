/// Evaluations whose batches are divided among ranks.

#include <doctest/doctest.h>

#include <cmath>
#include <mutex>
#include <vector>

#include "support/ranks.h"
#include "tests/support/thread_ranks.h"

using namespace linnet;
using namespace linnet::examples;
using linnet::test::run_ranks;

namespace {

/// Numbers of very different sizes, so that their sum depends on its order. Batch i has i + 2 numbers.
Figures figures_of(int64_t batch) {
  const auto i = static_cast<double>(batch);
  Figures figures{std::exp(9 * std::sin(i)), 1 / (1 + i)};
  figures.resize(static_cast<size_t>(2 + batch), i);
  return figures;
}

}  // namespace

TEST_CASE("evaluation: each rank computes a part of the batches, and all have the figures of all of them") {
  for (const int64_t batches : {0, 1, 3, 4, 11}) {
    std::vector<Figures> expected;
    for (int64_t i = 0; i < batches; ++i) expected.push_back(figures_of(i));
    for (const int count : {1, 2, 3, 4, 8}) {
      std::mutex mutex;
      int64_t computed = 0;
      run_ranks(count, [&](ProcessGroup& group) {
        int64_t own = 0;
        const auto counted = [&](int64_t batch) {
          ++own;
          return figures_of(batch);
        };
        REQUIRE(figures_of_batches(batches, counted, group) == expected);
        REQUIRE(own <= (batches + count - 1) / count);
        const std::scoped_lock lock(mutex);
        computed += own;
      });
      CHECK(computed == batches);
    }
  }
}

TEST_CASE("evaluation: sums have the bits of one rank's") {
  constexpr int64_t kBatches = 13;
  const auto of_batch = [](int64_t batch) {
    Figures figures = figures_of(batch);
    figures.resize(2);
    return figures;
  };
  Figures expected{0, 0};
  for (int64_t i = 0; i < kBatches; ++i) {
    for (size_t figure = 0; figure < 2; ++figure) expected[figure] += of_batch(i)[figure];
  }
  for (const int count : {1, 2, 3, 4, 8}) {
    run_ranks(count, [&](ProcessGroup& group) { REQUIRE(sums_of_batches(kBatches, of_batch, group) == expected); });
  }
}
