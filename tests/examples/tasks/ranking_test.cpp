#include "support/tasks/ranking.h"

#include <cmath>
#include <numeric>

#include <doctest/doctest.h>
#include <linnet/linnet.h>

#include "support/tasks/click_data.h"

using namespace linnet::examples;

TEST_CASE("ranking: by hand") {
  const std::vector<double> scores{0.9, 0.1, 0.5, 0.7};
  const std::vector<bool> clicked{false, false, true, true};  // ranks 2 and 3 of 4
  CHECK(auc(scores, clicked) == 0.5);                         // wins against 0.1 only, twice
  CHECK(mean_reciprocal_rank(scores, clicked) == doctest::Approx((1.0 / 2 + 1.0 / 3) / 2));
  const double best = 1 + 1 / std::log2(3.0);
  CHECK(ndcg_at(5, scores, clicked) == doctest::Approx((1 / std::log2(3.0) + 1 / std::log2(4.0)) / best));
  CHECK(ndcg_at(2, scores, clicked) == doctest::Approx(1 / std::log2(3.0) / best));
  CHECK(ndcg_at(1, scores, clicked) == 0);
}

TEST_CASE("ranking: the best and the worst order") {
  const std::vector<bool> clicked{true, true, false, false, false};
  CHECK(auc({5, 4, 3, 2, 1}, clicked) == 1);
  CHECK(auc({1, 2, 3, 4, 5}, clicked) == 0);
  CHECK(ndcg_at(10, {5, 4, 3, 2, 1}, clicked) == 1);
  CHECK(mean_reciprocal_rank({5, 4, 3, 2, 1}, clicked) == 0.75);
}

TEST_CASE("ranking: equal scores gain nothing from the order they are given in") {
  const std::vector<double> same(4, 0.5);
  const std::vector<bool> first{true, false, false, false};
  CHECK(auc(same, first) == 0.5);
  CHECK(mean_reciprocal_rank(same, first) == 0.25);
  CHECK(ndcg_at(3, same, first) == 0);
}

TEST_CASE("ranking: auc is the area under the ROC curve") {
  linnet::Generator rng(5);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<double> scores = linnet::randint(0, 8, {12}, rng).to(linnet::DType::float64).to_vector<double>();
    const std::vector<int64_t> drawn = linnet::randint(0, 2, {12}, rng).to_vector<int64_t>();
    std::vector<bool> clicked(drawn.begin(), drawn.end());
    clicked[0] = true, clicked[1] = false;
    // By trapezoids, from the highest threshold to the lowest.
    double area = 0, hits = 0, misses = 0;
    const auto positives = static_cast<double>(std::count(clicked.begin(), clicked.end(), true));
    for (int threshold = 7; threshold >= 0; --threshold) {
      double hits_here = 0, misses_here = 0;
      for (size_t i = 0; i < scores.size(); ++i) {
        if (scores[i] == threshold) (clicked[i] ? hits_here : misses_here) += 1;
      }
      area += misses_here * (hits + hits_here / 2);
      hits += hits_here, misses += misses_here;
    }
    CHECK(auc(scores, clicked) == doctest::Approx(area / (positives * misses)));
  }
}

TEST_CASE("ranking: what cannot be ranked") {
  CHECK_THROWS_WITH(auc({1, 2}, {true}), "2 scores but 1 labels");
  CHECK_THROWS_WITH(auc({1, 2}, {true, true}), doctest::Contains("all candidates were clicked"));
  CHECK_THROWS_WITH(mean_reciprocal_rank({1, 2}, {false, false}), "no candidate was clicked");
  CHECK_THROWS_WITH(ndcg_at(5, {1, std::nan("")}, {true, false}), "a score is nan");
}

TEST_CASE("ClickData: sizes, and the same clicks from the same seed") {
  const ClickDataConfig config{.users = 20, .test_users = 5, .items = 100, .candidates = 4, .test_candidates = 9};
  const ClickData a(config), b(config);
  CHECK(a.train().size() == 20);
  CHECK(a.test().size() == 5);
  CHECK(a.titles().shape() == linnet::Shape{100, ClickData::kTitle});
  CHECK(a.titles().to_vector<int64_t>() == b.titles().to_vector<int64_t>());
  for (size_t i = 0; i < a.test().size(); ++i) {
    CHECK(a.test()[i].history == b.test()[i].history);
    CHECK(a.test()[i].candidates == b.test()[i].candidates);
    CHECK(a.test()[i].candidates.size() == 9);
    CHECK(a.test()[i].history.size() <= ClickData::kHistory);
  }
  ClickDataConfig other = config;
  other.seed = 1;
  CHECK(ClickData(other).titles().to_vector<int64_t>() != a.titles().to_vector<int64_t>());
}
