#include <linnet/nn/metrics.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/linnet.h>
#include <nlohmann/json.hpp>

#include "tests/support/files.h"
#include "tests/support/real_data.h"

using namespace linnet;
using Numbers = std::vector<double>;

namespace {

Tensor of(const Numbers& values) { return tensor(values); }

}  // namespace

TEST_CASE("ranking metrics: by hand") {
  const Tensor scores = of({0.9, 0.1, 0.5, 0.7}), clicked = of({0, 0, 1, 1});  // ranks 2 and 3 of 4
  CHECK(nn::roc_auc(scores, clicked) == 0.5);                                  // wins against 0.1 only, twice
  CHECK(nn::average_precision(scores, clicked) == doctest::Approx((1.0 / 2 + 2.0 / 3) / 2));
  CHECK(nn::mean_reciprocal_rank(scores, clicked) == doctest::Approx((1.0 / 2 + 1.0 / 3) / 2));
  const double best = 1 + 1 / std::log2(3.0);
  CHECK(nn::ndcg(scores, clicked, 5) == doctest::Approx((1 / std::log2(3.0) + 1 / std::log2(4.0)) / best));
  CHECK(nn::ndcg(scores, clicked, 2) == doctest::Approx(1 / std::log2(3.0) / best));
  CHECK(nn::ndcg(scores, clicked, 1) == 0);
}

TEST_CASE("ranking metrics: the best and the worst order") {
  const Tensor clicked = of({1, 1, 0, 0, 0}), falling = of({5, 4, 3, 2, 1}), rising = of({1, 2, 3, 4, 5});
  CHECK(nn::roc_auc(falling, clicked) == 1);
  CHECK(nn::roc_auc(rising, clicked) == 0);
  CHECK(nn::average_precision(falling, clicked) == 1);
  CHECK(nn::ndcg(falling, clicked, 10) == 1);
  CHECK(nn::mean_reciprocal_rank(falling, clicked) == 0.75);
}

TEST_CASE("ranking metrics: equal scores gain nothing from the order they are given in") {
  const Tensor same = of({0.5, 0.5, 0.5, 0.5}), first = of({1, 0, 0, 0});
  CHECK(nn::roc_auc(same, first) == 0.5);
  CHECK(nn::average_precision(same, first) == 0.25);
  CHECK(nn::mean_reciprocal_rank(same, first) == 0.25);
  CHECK(nn::ndcg(same, first, 3) == 0);
}

TEST_CASE("auc: the share of pairs of a positive and a negative that are in order") {
  Generator rng(5);
  for (int trial = 0; trial < 20; ++trial) {
    const Tensor scores = randint(0, 8, {12}, rng), targets = randint(0, 2, {12}, rng);
    targets[0] = 1, targets[1] = 0;
    const Numbers score = scores.to_vector<double>(), target = targets.to_vector<double>();
    double wins = 0, pairs = 0;
    for (size_t i = 0; i < 12; ++i) {
      for (size_t j = 0; j < 12; ++j) {
        if (target[i] == 0 || target[j] == 1) continue;
        ++pairs;
        wins += score[i] > score[j] ? 1 : score[i] == score[j] ? 0.5 : 0;
      }
    }
    CHECK(nn::roc_auc(scores, targets) == doctest::Approx(wins / pairs));
  }
}

TEST_CASE("ranking metrics: any dtype, layout, and history") {
  const Tensor scores = of({0.9, 0.1, 0.5, 0.7}), clicked = of({0, 0, 1, 1});
  const Tensor wide = zeros({4, 2}, DType::float64);
  wide.select(1, 0).copy_(scores);
  CHECK(nn::roc_auc(wide.select(1, 0), clicked.to(DType::boolean)) == 0.5);
  const Tensor trained = (scores.clone().set_requires_grad() * 2).to(DType::float32);
  CHECK(nn::average_precision(trained, clicked) == nn::average_precision(scores, clicked));
  CHECK(nn::roc_auc(of({-INFINITY, INFINITY, 0, 1}), clicked) == 0.5);
  CHECK(nn::ndcg(of({3, 2, 1}), of({1000, 0, 1000}), 3) < 1);  // no overflow
}

TEST_CASE("ranking metrics: what cannot be ranked") {
  const Tensor two = of({1, 2}), mixed = of({1, 0}), none = of({0, 0}), three = of({1, 0, 0}), grade = of({2, 0});
  CHECK_THROWS_WITH_AS(nn::roc_auc(two, three), doctest::Contains("have shapes [2] and [3]"), ShapeError);
  CHECK_THROWS_WITH_AS(nn::mean_reciprocal_rank(zeros({2, 3}), zeros({2, 3})), doctest::Contains("one by one"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(nn::roc_auc(two, ones({2})), doctest::Contains("all targets are 1"), ValueError);
  CHECK_THROWS_WITH_AS(nn::roc_auc(two, none), doctest::Contains("none of the 2 targets is above 0"), ValueError);
  CHECK_THROWS_WITH_AS(nn::average_precision(zeros({0}), zeros({0})), doctest::Contains("none of the 0"), ValueError);
  CHECK_THROWS_WITH_AS(nn::mean_reciprocal_rank(two, none), doctest::Contains("leave the list out"), ValueError);
  CHECK_THROWS_WITH_AS(nn::ndcg(two, none, 5), doctest::Contains("ndcg: none of"), ValueError);
  CHECK_THROWS_WITH_AS(nn::ndcg(of({1, std::nan("")}), mixed, 5), doctest::Contains("score 1 is NaN"), ValueError);
  CHECK_THROWS_WITH_AS(nn::roc_auc(two, grade), doctest::Contains("target 0 is 2; it must be 0 or 1"), ValueError);
  CHECK_THROWS_WITH_AS(nn::average_precision(two, of({1, -1})), doctest::Contains("target 1 is -1"), ValueError);
  CHECK_THROWS_WITH_AS(nn::roc_auc(two, of({1, 0.5})), doctest::Contains("target 1 is 0.5"), ValueError);
  CHECK_THROWS_WITH_AS(nn::roc_auc(two, of({1, std::nan("")})), doctest::Contains("target 1 is nan"), ValueError);
  CHECK_THROWS_WITH_AS(nn::ndcg(two, of({1, 1001}), 2), doctest::Contains("whole number from 0 to 1000"), ValueError);
  CHECK_THROWS_WITH_AS(nn::ndcg(two, mixed, 0), doctest::Contains("k is 0; it must be at least 1"), ValueError);
  CHECK(nn::ndcg(two, grade, 5) == doctest::Approx(1 / std::log2(3.0)));
}

TEST_CASE("ranking metrics: the figures of scikit-learn and of MIND's formulas") {
  const auto path = test::real_data("../fixtures/mechanisms/metrics.json");
  if (!path) return;
  const auto near = [](const nlohmann::json& value) { return doctest::Approx(value.get<double>()).epsilon(1e-12); };
  const nlohmann::json file = nlohmann::json::parse(test::read_bytes(*path));
  for (const auto& list : file.at("binary")) {
    const Tensor scores = of(list.at("scores")), targets = of(list.at("labels"));
    CHECK(nn::roc_auc(scores, targets) == near(list.at("auc")));
    CHECK(nn::average_precision(scores, targets) == near(list.at("average_precision")));
  }
  for (const auto& list : file.at("impressions")) {
    const Tensor scores = of(list.at("scores")), targets = of(list.at("labels"));
    CHECK(nn::roc_auc(scores, targets) == near(list.at("auc")));
    CHECK(nn::mean_reciprocal_rank(scores, targets) == near(list.at("mrr")));
    CHECK(nn::ndcg(scores, targets, 5) == near(list.at("ndcg@5")));
    CHECK(nn::ndcg(scores, targets, 10) == near(list.at("ndcg@10")));
  }
  for (const auto& rows : file.at("classes")) {
    const Tensor targets = tensor(rows.at("labels").get<std::vector<int64_t>>());
    const Tensor predictions = tensor(rows.at("predictions").get<std::vector<int64_t>>());
    const Tensor logits = one_hot(predictions, rows.at("classes"), DType::float32);
    CHECK(accuracy(logits, targets) == near(rows.at("accuracy")));
    CHECK(nn::macro_f1(logits, targets) == near(rows.at("macro_f1")));
  }
}
