#include <linnet/nn/metrics.h>

#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;

namespace {

/// Metrics are numbers from 0 to 1.
void check_same(double actual, double expected) { CHECK(std::abs(actual - expected) < 1e-12); }

void compare_classes(const Golden& golden, DType dtype) {
  const Tensor logits = golden.get("logits").to(dtype), targets = golden.get("targets");
  check_same(accuracy(logits, targets), golden.get("accuracy").item());
  check_same(nn::macro_f1(logits, targets), golden.get("macro_f1").item());
  CHECK(nn::macro_f1(logits.unsqueeze(0), targets.to(DType::int32).unsqueeze(0)) == nn::macro_f1(logits, targets));
}

void compare_binary(const Golden& golden, DType dtype) {
  const Tensor scores = golden.get("scores").to(dtype), targets = golden.get("targets");
  check_same(nn::roc_auc(scores, targets), golden.get("auc").item());
  check_same(nn::average_precision(scores, targets), golden.get("average_precision").item());
  for (const DType other : {DType::boolean, DType::int32, DType::float32}) {
    CHECK(nn::roc_auc(scores, targets.to(other)) == nn::roc_auc(scores, targets));
  }
}

void compare_list(const Golden& golden, DType dtype) {
  const Tensor scores = golden.get("scores").to(dtype), targets = golden.get("targets");
  const Tensor reciprocal = golden.get("mean_reciprocal_rank");
  if (reciprocal.defined()) check_same(nn::mean_reciprocal_rank(scores, targets), reciprocal.item());
  for (const int64_t k : {1, 3, 5, 10, 100}) {
    CAPTURE(k);
    check_same(nn::ndcg(scores, targets, k), golden.get("ndcg_" + std::to_string(k)).item());
  }
}

std::vector<nn::RougeScore> all_rouge(const std::string& prediction, const std::vector<std::string>& references,
                                      bool use_stemmer) {
  const nn::RougeOptions options{.use_stemmer = use_stemmer};
  return {nn::rouge_n(prediction, references, 1, options), nn::rouge_n(prediction, references, 2, options),
          nn::rouge_n(prediction, references, 3, options), nn::rouge_l(prediction, references, options),
          nn::rouge_lsum(prediction, references, options)};
}

void compare_rouge(const Golden& golden, DType) {
  const std::string prediction = golden.parameters.at("prediction");
  const std::vector<std::string> references = golden.parameters.at("references");
  CAPTURE(prediction);
  CAPTURE(references[0]);
  std::vector<double> actual;
  for (const bool use_stemmer : {false, true}) {
    for (const nn::RougeScore& score : all_rouge(prediction, references, use_stemmer)) {
      for (const double value : {score.precision, score.recall, score.f1}) actual.push_back(value);
    }
  }
  const std::vector<double> expected = golden.get("scores").to_vector<double>();
  REQUIRE(actual.size() == expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i);
    check_same(actual[i], expected[i]);
  }
}

void compare_stems(const Golden& golden, DType) {
  const std::vector<std::string> words = golden.parameters.at("words"), stems = golden.parameters.at("stems");
  REQUIRE(words.size() == stems.size());
  for (size_t i = 0; i < words.size(); ++i) {
    CAPTURE(words[i]);
    CHECK(nn::porter_stem(words[i]) == stems[i]);
  }
}

}  // namespace

TEST_CASE("The metrics agree with scikit-learn, MIND's evaluation, rouge-score and NLTK") {
  for (const DType dtype : {DType::float64, DType::float32}) {
    compare_goldens("metrics", dtype,
                    {{"macro_f1", compare_classes},
                     {"binary", compare_binary},
                     {"list", compare_list},
                     {"rouge", compare_rouge},
                     {"porter_stem", compare_stems}});
  }
}
