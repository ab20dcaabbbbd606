#include <linnet/nn/metrics.h>

#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/error.h>
#include <nlohmann/json.hpp>

#include "tests/support/files.h"
#include "tests/support/real_data.h"

using namespace linnet;

namespace {

void check_rouge(const nn::RougeScore& score, double precision, double recall, double f1) {
  CHECK(score.precision == doctest::Approx(precision).epsilon(1e-12));
  CHECK(score.recall == doctest::Approx(recall).epsilon(1e-12));
  CHECK(score.f1 == doctest::Approx(f1).epsilon(1e-12));
}

/// `count` words, each one of `kinds`, on lines of `line` words.
std::string drawn_words(std::mt19937& random, int count, unsigned kinds, int line) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "w" + std::to_string(random() % kinds) + (i % line == line - 1 ? "\n" : " ");
  }
  return text;
}

}  // namespace

TEST_CASE("ROUGE: by hand") {
  const std::string prediction = "the cat was under the bed";
  const std::vector<std::string> reference{"the cat was found under the bed"};
  check_rouge(nn::rouge_n(prediction, reference, 1), 1, 6.0 / 7, 12.0 / 13);
  check_rouge(nn::rouge_n(prediction, reference, 2), 4.0 / 5, 4.0 / 6, 8.0 / 11);
  check_rouge(nn::rouge_n(prediction, reference, 7), 0, 0, 0);
  check_rouge(nn::rouge_n(prediction, {prediction}, INT64_MAX), 0, 0, 0);
  check_rouge(nn::rouge_l(prediction, reference), 1, 6.0 / 7, 12.0 / 13);
  check_rouge(nn::rouge_l("d a b c", {"a b c d"}), 0.75, 0.75, 0.75);
  // The sentences of the prediction find "w1 w2" and "w1 w3 w5" in the reference (Lin 2004, section 3.2).
  check_rouge(nn::rouge_lsum("w1 w2 w6 w7 w8\nw1 w3 w8 w9 w5", {"w1 w2 w3 w4 w5"}), 0.4, 0.8, 8.0 / 15);
}

TEST_CASE("ROUGE: several references, and a corpus") {
  const nn::RougeScore best = nn::rouge_n("a b c", {"x", "a b c d", "a"}, 1);
  check_rouge(best, 1, 0.75, 6.0 / 7);
  check_rouge(nn::rouge_l("a b c", {"x", "a b c d", "a"}), 1, 0.75, 6.0 / 7);
  check_rouge(nn::rouge_lsum("a b c", {"x", "a b c d", "a"}), 1, 0.75, 6.0 / 7);
  check_rouge(nn::mean_rouge({{1, 0.5, 0.25}, {0.5, 0, 0.75}}), 0.75, 0.25, 0.5);
  check_rouge(nn::mean_rouge(std::vector<nn::RougeScore>(10, {1, 1, 1})), 1, 1, 1);
}

TEST_CASE("ROUGE: bytes that are no text separate tokens") {
  const std::string prediction("caf\xC3\xA9\xFF\x00 ok\xE2\x84", 11);
  check_rouge(nn::rouge_l(prediction, {"caf ok"}), 1, 1, 1);
  CHECK(nn::porter_stem(std::string("na\xC3\xAFvely\xFF", 9)) == "na\xC3\xAFvely\xFF");
  CHECK(nn::porter_stem("") == "");
  CHECK(nn::porter_stem(std::string(100'000, 'y')).size() == 100'000);
}

TEST_CASE("ROUGE: exchanged texts exchange precision and recall, and a text is itself") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 50; ++trial) {
    const std::string a = drawn_words(random, 1 + trial, 6, 9), b = drawn_words(random, 50, 6, 9);
    CAPTURE(a);
    CAPTURE(b);
    for (const int64_t n : {1, 2, 3}) {
      const nn::RougeScore there = nn::rouge_n(a, {b}, n), back = nn::rouge_n(b, {a}, n);
      check_rouge(there, back.recall, back.precision, back.f1);
    }
    const nn::RougeScore there = nn::rouge_l(a, {b}), back = nn::rouge_l(b, {a});
    check_rouge(there, back.recall, back.precision, back.f1);
    CHECK(nn::rouge_lsum(a, {b}).precision <= nn::rouge_n(a, {b}, 1).precision);
    check_rouge(nn::rouge_l(a, {a}), 1, 1, 1);
    check_rouge(nn::rouge_lsum(a, {a}), 1, 1, 1);
  }
}

TEST_CASE("ROUGE: bad input") {
  CHECK_THROWS_WITH_AS(nn::rouge_n("a", {"a"}, 0), doctest::Contains("rouge_n: n is 0"), ValueError);
  CHECK_THROWS_WITH_AS(nn::rouge_n("a", {}, 1), doctest::Contains("give at least one"), ValueError);
  CHECK_THROWS_WITH_AS(nn::rouge_l("a", {}), doctest::Contains("rouge_l: there is no reference"), ValueError);
  CHECK_THROWS_WITH_AS(nn::rouge_lsum("a", {}), doctest::Contains("rouge_lsum: there is no reference"), ValueError);
  CHECK_THROWS_WITH_AS(nn::mean_rouge({}), doctest::Contains("mean_rouge: there are no scores"), ValueError);
}

TEST_CASE("ROUGE: the published scorer's figures") {
  const auto path = test::real_data("../fixtures/mechanisms/rouge.json");
  if (!path) return;
  for (const auto& pair : nlohmann::json::parse(test::read_bytes(*path)).at("pairs")) {
    const std::string prediction = pair.at("prediction");
    const std::vector<std::string> reference{pair.at("target")};
    CAPTURE(prediction);
    for (const bool use_stemmer : {false, true}) {
      const nn::RougeOptions options{.use_stemmer = use_stemmer};
      const nlohmann::json& expected = pair.at(use_stemmer ? "stem" : "plain");
      const auto check = [&](const nn::RougeScore& score, const char* name) {
        const std::vector<double> values = expected.at(name);
        check_rouge(score, values.at(0), values.at(1), values.at(2));
      };
      check(nn::rouge_n(prediction, reference, 1, options), "rouge1");
      check(nn::rouge_n(prediction, reference, 2, options), "rouge2");
      check(nn::rouge_l(prediction, reference, options), "rougeL");
      check(nn::rouge_lsum(prediction, reference, options), "rougeLsum");
    }
  }
}

TEST_CASE("porter_stem: NLTK's stems") {
  const auto path = test::real_data("../fixtures/mechanisms/porter.tsv");
  if (!path) return;
  std::istringstream lines(test::read_bytes(*path));
  int count = 0;
  for (std::string word, stem; lines >> word >> stem; ++count) {
    CAPTURE(word);
    CHECK(nn::porter_stem(word) == stem);
  }
  CHECK(count == 3712);
}
