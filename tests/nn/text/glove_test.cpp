#include <linnet/nn/text/glove.h>

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include <fmt/format.h>

#include <linnet/core/error.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/support/files.h"
#include "tests/support/near.h"
#include "tests/support/threads.h"

using namespace linnet;
using namespace linnet::test;

namespace {

nn::WordVocabulary vocabulary_of(const std::string& text) {
  return nn::WordVocabulary::build(std::vector<std::string>{text});
}

nn::WordVectors read(const std::string& file, const nn::WordVocabulary& vocabulary, uint64_t seed = 1) {
  const TemporaryFolder folder;
  write_bytes(folder / "v.txt", file);
  Generator rng(seed);
  return nn::read_glove(folder / "v.txt", vocabulary, rng);
}

std::vector<float> row(const nn::WordVectors& vectors, int64_t id) { return vectors.vectors[id].to_vector<float>(); }

void refused(const std::string& file, const std::string& part) {
  CAPTURE(file);
  CHECK_THROWS_WITH_AS(read(file, vocabulary_of("a b")), doctest::Contains(part.c_str()), IoError);
}

/// The mean of some rows, and their covariance.
std::pair<std::vector<double>, std::vector<double>> moments(const Tensor& rows) {
  const Tensor centred = rows - rows.mean({0});
  return {rows.mean({0}).to_vector<double>(),
          (matmul(centred.transpose(0, 1), centred) / (rows.size(0) - 1)).to_vector<double>()};
}

using Floats = std::vector<float>;

}  // namespace

TEST_CASE("read_glove: the vectors of the vocabulary's words, by their ids") {
  const auto vocabulary = vocabulary_of("a b b c");  // b 2, a 3, c 4
  const nn::WordVectors glove = read("the 9 9 9\na 1 -2.5 3e-1\nb 4 5 6\n", vocabulary);
  CHECK(glove.vectors.shape() == Shape{5, 3});
  CHECK(glove.vectors.dtype() == DType::float32);
  CHECK(glove.found == 2);
  CHECK(glove.repeated == 0);
  CHECK(row(glove, 0) == Floats{0, 0, 0});
  CHECK(row(glove, 2) == Floats{4, 5, 6});
  CHECK(row(glove, 3) == Floats{1, -2.5F, 0.3F});
  for (const float number : row(glove, 4)) CHECK(std::isfinite(number));
  CHECK(row(glove, 4) != row(glove, 1));
}

TEST_CASE("read_glove: words with blanks, repeated words, and the ends of lines") {
  const auto vocabulary = vocabulary_of("a b");
  const nn::WordVectors glove =
      read("a 1 2\r\n. . . 7 7\nat a@b.com 7 7 \nb\t3  4 \na 5 6\nc 8 8\nc 8 8", vocabulary);
  CHECK(glove.found == 2);
  CHECK(glove.repeated == 1);
  CHECK(row(glove, 2) == Floats{1, 2});
  CHECK(row(glove, 3) == Floats{3, 4});
}

TEST_CASE("read_glove: numbers too near to 0 are 0") {
  const nn::WordVectors glove = read("a 1e-400 -1e-400\nb 1e-50 5\n", vocabulary_of("a b"));
  CHECK(row(glove, 2) == Floats{0, 0});
  CHECK(row(glove, 3) == Floats{0, 5});
}

TEST_CASE("read_glove: word2vec's first line is passed over") {
  const nn::WordVectors glove = read("2 3\na 1 2 3\nb 4 5 6\n", vocabulary_of("a b"));
  CHECK(row(glove, 3) == Floats{4, 5, 6});
  CHECK(read("1 0.5\na 2\n", vocabulary_of("a b 1")).found == 2);  // a number with a vector of one number
}

TEST_CASE("read_glove: words without a vector have the mean and the covariance of the others") {
  // Two entries that are correlated, and one that is nearly always 2.
  std::string file, text;
  constexpr int kKnown = 500, kMissing = 20000;
  for (int i = 0; i < kKnown; ++i) {
    const double a = 3 * std::sin(1.7 * i), b = std::cos(2.9 * i);
    file += fmt::format("k{} {} {} {}\n", i, 5 + a, a + b, i % 2 == 0 ? 1.999 : 2.001);
    text += fmt::format("k{} ", i);
  }
  for (int i = 0; i < kMissing; ++i) text += fmt::format("m{} ", i);
  const nn::WordVectors glove = read(file, vocabulary_of(text));
  REQUIRE(glove.found == kKnown);
  const Tensor all = glove.vectors.to(DType::float64);
  const auto [mean, covariance] = moments(all[{Slice{2, 2 + kKnown}}]);
  const auto [drawn_mean, drawn_covariance] = moments(all[{Slice{2 + kKnown, {}}}]);
  for (size_t i = 0; i < 3; ++i) CHECK(drawn_mean[i] == doctest::Approx(mean[i]).epsilon(0.02));
  for (size_t i = 0; i < 9; ++i) CHECK(std::abs(drawn_covariance[i] - covariance[i]) < 0.15);
  CHECK(covariance[0] == doctest::Approx(4.5).epsilon(0.05));
  CHECK(std::abs(covariance[1]) > 4);
  CHECK(drawn_covariance[8] / (covariance[8] + 1e-6) == doctest::Approx(1).epsilon(0.03));  // 1e-6 is added to each
}

TEST_CASE("read_glove: the same where there are fewer vectors than numbers in one") {
  std::string text = "a b ";
  for (int i = 0; i < 20000; ++i) text += fmt::format("m{} ", i);
  const nn::WordVectors glove = read("a 1 2 3\nb 4 2 -1\n", vocabulary_of(text));
  const auto [mean, covariance] = moments(glove.vectors[{Slice{4, {}}}].to(DType::float64));
  const std::vector<double> expected{4.5, 0, -6, 0, 1e-6, 0, -6, 0, 8};
  CHECK(mean[0] == doctest::Approx(2.5).epsilon(0.02));
  CHECK(mean[2] == doctest::Approx(1).epsilon(0.06));
  for (size_t i = 0; i < 9; ++i) CHECK(std::abs(covariance[i] - expected[i]) < 0.2);
  CHECK(covariance[4] == near(1e-6, 0.05));  // added to each
}

TEST_CASE("read_glove: the seed decides what is drawn, and the number of threads does not") {
  const auto vocabulary = vocabulary_of("a b c d e f");
  const std::string file = "a 1 2\nb 2 1\nc 0 5\n";
  const auto numbers = [&](uint64_t seed, int threads) {
    const WithThreads with(threads);
    return read(file, vocabulary, seed).vectors.to_vector<float>();
  };
  CHECK(numbers(1, 1) == numbers(1, 3));
  CHECK(numbers(1, 1) != numbers(2, 1));
  CHECK(read("a 1 2\n", vocabulary).vectors.isfinite().all().item<bool>());
}

TEST_CASE("read_glove: malformed lines, with their numbers") {
  refused("a 1 2\nb 1\n", "v.txt, line 2: too few numbers; a word and 2 numbers are expected, as in the first line");
  refused("a 1 2\nb 1 2 3\n", "v.txt, line 2: more numbers; a word and 2 numbers are expected");
  refused("a 1 2\n\nb 1 2\n", "v.txt, line 2: too few numbers");
  refused("a 1 2\nc 1 x\n", "v.txt, line 2: 'x' is no number from -1e18 to 1e18; a word and 2 numbers");
  refused("2 2\na 1 2\nb 1 nan\n", "v.txt, line 3: 'nan' is no number");
  refused("a 1 1e39\n", "line 1: '1e39' is no number");
  refused("a 1 2\nb 1 inf", "line 2: 'inf' is no number");
  refused("a 1 2\n 1 2\n", "line 2: no word before the numbers; a word and 2 numbers");
  refused("", "line 1: 0 numbers after a word; 1 to 1024 are expected");
  refused("a\n", "line 1: 0 numbers after a word");
  refused("2 3\n", "line 2: 0 numbers after a word");
  std::string wide = "a";
  for (int i = 0; i < 1025; ++i) wide += " 1";
  refused(wide, "line 1: 1025 numbers after a word");
  refused("x 1 2\n", "v.txt has none of the 4 words of the vocabulary; choose vectors of the texts' language");
  Generator rng(1);
  CHECK_THROWS_WITH_AS(nn::read_glove("/nowhere.txt", vocabulary_of("a"), rng), doctest::Contains("/nowhere.txt"),
                       IoError);
}
