#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/memory_stats.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/indexing.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/array/sorting.h>

#include "tests/support/same_bits.h"
#include "tests/support/values.h"

using namespace linnet;
using linnet::test::check_threads_change_no_bit;
using test::Doubles;

namespace {

struct Moments {
  double mean, variance, fourth;  // the last two are central moments
};

Moments moments_of(const Tensor& x) {
  const Doubles values = x.to_vector<double>();
  const double n = static_cast<double>(values.size());
  Moments m{};
  for (const double v : values) m.mean += v / n;
  for (const double v : values) m.variance += std::pow(v - m.mean, 2) / n;
  for (const double v : values) m.fourth += std::pow(v - m.mean, 4) / n;
  return m;
}

}  // namespace

TEST_CASE("rand: element i is word i of the draw, as 24 bits") {
  Generator generator(42);
  const RandomKey key = Generator(42).next();
  const std::vector<float> values = rand({1003}, generator).to_vector<float>();
  for (size_t i = 0; i < values.size(); ++i) {
    REQUIRE(values[i] == static_cast<float>(random_word(key, i) >> 8) / 16777216.0f);
  }
}

TEST_CASE("rand: float64 takes 53 bits of two words") {
  Generator generator(42);
  const RandomKey key = Generator(42).next();
  const Doubles values = rand({517}, generator, DType::float64).to_vector<double>();
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = uint64_t{random_word(key, 2 * i)} >> 5 << 26 | random_word(key, 2 * i + 1) >> 6;
    REQUIRE(values[i] == static_cast<double>(bits) / 9007199254740992.0);
  }
}

TEST_CASE("rand: moments of the uniform distribution") {
  // Standard errors over n = 10^6 draws: √(1/12/n) = 2.9e-4, √((1/80 − 1/144)/n) = 7.5e-5. Five of each.
  for (const DType dtype : {DType::float32, DType::float64}) {
    Generator generator(1);
    const Moments m = moments_of(rand({1000000}, generator, dtype));
    CHECK(std::abs(m.mean - 0.5) < 5 * 2.9e-4);
    CHECK(std::abs(m.variance - 1.0 / 12) < 5 * 7.5e-5);
  }
}

TEST_CASE("randn: √(−2·ln u)·cos(2π·v), with 31 bits of one word and 24 bits of the next") {
  Generator generator(7);
  const RandomKey key = Generator(7).next();
  const Doubles values = randn({1000}, generator, DType::float64).to_vector<double>();
  for (uint64_t i = 0; i < values.size(); ++i) {
    const double u = (static_cast<double>(random_word(key, 2 * i) >> 1) + 1) * 0x1p-31;
    const double turns = to_uniform(random_word(key, 2 * i + 1));
    REQUIRE(std::abs(values[i] - std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * turns)) < 1e-12);
  }
}

TEST_CASE("randn: moments of the normal distribution") {
  // Standard errors over n = 10^6: 1e-3 (mean), √(2/n) = 1.4e-3 (variance), √(96/n) = 9.8e-3 (fourth). Five
  // of each.
  for (const DType dtype : {DType::float32, DType::float64}) {
    Generator generator(2);
    const Moments m = moments_of(randn({1000000}, generator, dtype));
    CHECK(std::abs(m.mean) < 5 * 1e-3);
    CHECK(std::abs(m.variance - 1) < 5 * 1.4e-3);
    CHECK(std::abs(m.fourth - 3) < 5 * 9.8e-3);
  }
}

TEST_CASE("randn: both dtypes draw the same numbers, to float32's rounding") {
  Generator first(5), second(5);
  const Doubles single = randn({4099}, first).to_vector<double>();
  const Doubles both = randn({4099}, second, DType::float64).to_vector<double>();
  // The float32 angle and logarithm are off by a few 2^-24 of at most 2π and 43, and √ is steep near 0.
  for (size_t i = 0; i < single.size(); ++i) {
    REQUIRE(std::abs(single[i] - both[i]) < (std::abs(both[i]) > 0.1 ? 1e-5 : 5e-4));
  }
}

TEST_CASE("randint: in range, each value as often") {
  Generator generator(3);
  const std::vector<int64_t> values = randint(-3, 4, {70000}, generator).to_vector<int64_t>();
  std::vector<int> counts(7);
  for (const int64_t value : values) {
    REQUIRE(value >= -3);
    REQUIRE(value < 4);
    ++counts[static_cast<size_t>(value + 3)];
  }
  for (const int count : counts) CHECK(std::abs(count - 10000) < 5 * 93);  // √(10000·6/7) = 93
  CHECK(randint(0, int64_t{1} << 32, {8}, generator).dtype() == DType::int64);
  CHECK(randint(5, 6, {3}, generator, DType::int32).to_vector<int32_t>() == std::vector<int32_t>{5, 5, 5});
  CHECK_THROWS_WITH_AS(randint(4, 4, {1}, generator, DType::int64, Device::cpu, {"a.cpp", 7}),
                       "randint: high must be above low; low is 4, high 4 (a.cpp:7)", ValueError);
  CHECK_THROWS_AS(randint(INT64_MIN, INT64_MAX, {1}, generator), ValueError);
  CHECK_THROWS_AS(randint(0, 2, {1}, generator, DType::float32), DTypeError);
  CHECK_THROWS_WITH_AS(randint(0, int64_t{1} << 32, {1}, generator, DType::int32), doctest::Contains("use int64"),
                       ValueError);
  CHECK_THROWS_AS(randint(INT32_MIN - int64_t{1}, 0, {1}, generator, DType::int32), ValueError);
  CHECK(randint(INT32_MAX, int64_t{INT32_MAX} + 1, {1}, generator, DType::int32).item<int32_t>() == INT32_MAX);
}

TEST_CASE("randperm: a permutation, shuffled, another each time") {
  Generator generator(4);
  const std::vector<int64_t> first = randperm(1000, generator).to_vector<int64_t>();
  const std::vector<int64_t> second = randperm(1000, generator).to_vector<int64_t>();
  CHECK(std::set<int64_t>(first.begin(), first.end()).size() == 1000);
  CHECK(*std::max_element(first.begin(), first.end()) == 999);
  CHECK(*std::min_element(first.begin(), first.end()) == 0);
  CHECK(first != second);
  int fixed = 0;
  for (size_t i = 0; i < first.size(); ++i) fixed += first[i] == static_cast<int64_t>(i);
  CHECK(fixed < 8);  // their number is about Poisson(1)
  CHECK(randperm(0, generator).numel() == 0);
  CHECK_THROWS_AS(randperm(-1, generator), ValueError);
}

TEST_CASE("random: draws depend on seed and draw, not on threads or shape") {
  const auto second_draw = [] {
    Generator generator(9);
    rand({3}, generator);
    return std::vector<Tensor>{randn({3, 50000}, generator)};
  };
  check_threads_change_no_bit(second_draw);
  Generator again(9);
  const auto expected = second_draw()[0].to_vector<float>();
  CHECK(randn({150000}, again).to_vector<float>() != expected);  // the first draw is another
  CHECK(randn({150000}, again).to_vector<float>() == expected);
}

TEST_CASE("random: floating dtypes only, and empty shapes") {
  Generator generator(1);
  CHECK_THROWS_WITH_AS(rand({2}, generator, DType::int64, Device::cpu, {"a.cpp", 7}),
                       "rand: dtype must be a floating one, not int64; randint draws integers (a.cpp:7)", DTypeError);
  CHECK_THROWS_AS(randn({2}, generator, DType::boolean), DTypeError);
  CHECK(rand({0, 3}, generator).numel() == 0);
  CHECK(randn({}, generator).numel() == 1);
}

TEST_CASE("dropout: keeps what the words say, scaled") {
  const RandomKey key = Generator(6).next();
  for (const double rate : {0.1, 0.5, 0.9}) {
    Generator generator(6);
    const std::vector<float> y = dropout(full({1001}, 3), rate, generator).to_vector<float>();
    for (size_t i = 0; i < y.size(); ++i) {
      const bool kept = random_word(key, i) < keep_threshold(1 - rate);
      REQUIRE(y[i] == doctest::Approx(kept ? 3 / (1 - rate) : 0));
    }
  }
}

TEST_CASE("dropout: the kept fraction and the mean") {
  Generator generator(7);
  const Tensor y = dropout(ones({1000000}, DType::float64), 0.2, generator);
  CHECK(std::abs(mean(ne(y, 0).to(DType::float64)).item<double>() - 0.8) < 5 * 4e-4);  // √(0.8·0.2/n) = 4e-4
  CHECK(std::abs(mean(y).item<double>() - 1) < 5 * 5e-4);
}

TEST_CASE("dropout: backward draws the same mask") {
  Generator generator(8);
  Tensor x = ones({64, 65}, DType::float64).set_requires_grad();
  const Tensor y = dropout(x, 0.3, generator);
  CHECK(grad({sum(y)}, {x})[0].to_vector<double>() == y.to_vector<double>());

  generator.set_state({8, 0});
  CHECK(dropout(x, 0.3, generator).to_vector<double>() == y.to_vector<double>());
}

TEST_CASE("dropout: the ends of the rate, evaluation, and bad rates") {
  Generator generator(1);
  const Tensor x = tensor({1, INFINITY, 3});
  CHECK(dropout(x, 1, generator).to_vector<double>() == Doubles{0, 0, 0});
  const uint64_t draws = generator.state().draws;
  CHECK(dropout(x, 0, generator).to_vector<double>() == x.to_vector<double>());
  CHECK(dropout(x, 0.5, generator, false).to_vector<double>() == x.to_vector<double>());
  CHECK(generator.state().draws == draws);
  CHECK_THROWS_WITH_AS(dropout(x, 1.5, generator, true, {"a.cpp", 7}),
                       "dropout: rate must be from 0 to 1, not 1.5 (a.cpp:7)", ValueError);
  CHECK_THROWS_AS(dropout(x, NAN, generator), ValueError);
  CHECK_THROWS_AS(dropout(ones({2}, DType::int64), 0.5, generator), DTypeError);
}

TEST_CASE("dropout: a strided input gives what its row-major copy gives") {
  Generator first(2), second(2);
  const Tensor x = arange(12, DType::float32).reshape({3, 4}).transpose(0, 1);
  CHECK(dropout(x, 0.5, first).to_vector<double>() == dropout(x.contiguous(), 0.5, second).to_vector<double>());
}

TEST_CASE("multinomial: one sample is the first of several without replacement") {
  Generator generator(8);
  for (const Shape& shape : {Shape{5}, Shape{40, 7}, Shape{3, 4, 2}}) {
    const Tensor p = rand(shape, generator);
    Generator a(1), b(1);
    const Tensor one = multinomial(p, 1, a);
    const auto classes = one.to_vector<int64_t>();
    CHECK(multinomial(p, 2, b).narrow(-1, 0, 1).to_vector<int64_t>() == classes);
    Shape expected = shape;
    expected[shape.rank() - 1] = 1;
    CHECK(one.shape() == expected);
  }
}

TEST_CASE("multinomial with replacement: class c is where the running sum passes a uniform number") {
  Generator a(3), b(3);
  const Doubles weights = {0, 2, 0, 1, 5, 0};
  const Tensor p = tensor(weights).expand({2, 6});
  const auto drawn = multinomial(p, 500, a, true).to_vector<int64_t>();
  const Doubles uniform = rand({2, 500}, b, DType::float64).to_vector<double>();
  for (size_t i = 0; i < drawn.size(); ++i) {
    size_t expected = 0;
    double sum = 0;
    while ((sum += weights[expected]) <= uniform[i] * 8) ++expected;
    CHECK(static_cast<size_t>(drawn[i]) == expected);
  }
  // Sums of these overflow. The last class, of probability 0, is not drawn.
  const auto large = multinomial(tensor({1e308, 0, 1e308, 0}, DType::float64), 1000, a, true);
  const auto counts = one_hot(large, 4).sum({0}).to_vector<int64_t>();
  CHECK(counts[0] > 400);
  CHECK(counts[2] > 400);
  CHECK(counts[0] + counts[2] == 1000);
  check_threads_change_no_bit([&] {
    Generator same(9);
    return std::vector<Tensor>{multinomial(rand({5000}, same), 70000, same, true)};
  });
}

TEST_CASE("multinomial with replacement takes memory linear in the samples and the classes") {
  Generator generator(4);
  const Tensor p = ones({3000});
  release_cached_memory();
  reset_peak_memory();
  const int64_t live = memory_stats().live;
  multinomial(p, 3000, generator, true);
  CHECK(memory_stats().peak - live < 1'000'000);  // 3000 · 3000 numbers are 72 million bytes
}

TEST_CASE("multinomial of no classes names the probabilities") {
  Generator generator(5);
  for (const bool replacement : {false, true}) {
    CHECK_THROWS_WITH_AS(multinomial(zeros({2, 0}), 1, generator, replacement),
                         doctest::Contains("multinomial: probabilities[2, 0] have no classes"), ShapeError);
  }
}
