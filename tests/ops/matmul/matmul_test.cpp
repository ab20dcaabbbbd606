#include <array>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include <doctest/doctest.h>

#include <linnet/core/autograd/tape.h>
#include <linnet/core/device/kernel_access.h>
#include <linnet/core/error.h>
#include <linnet/core/memory_stats.h>
#include <linnet/ops/array/arithmetic.h>
#include <linnet/ops/array/compare.h>
#include <linnet/ops/array/creation.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/random.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/matmul/matmul.h>

#include "tests/support/max_or_nan.h"
#include "tests/support/same_bits.h"

namespace linnet {
namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The largest difference between out[..., m, n] and the sum over k in double, for one matrix or a batch.
double error_of_product(const Tensor& out, const Tensor& a, const Tensor& b) {
  const int64_t m = out.size(-2), n = out.size(-1), k = a.size(-1);
  Shape leading(out.shape().begin(), out.shape().end() - 2);
  const auto matrices = [&](const Tensor& x) {
    Shape shape = leading;
    shape.push_back(x.size(-2));
    shape.push_back(x.size(-1));
    return x.expand(shape).to_vector<double>();
  };
  const std::vector<double> x = matrices(a), y = matrices(b), z = out.to_vector<double>();
  double worst = 0;
  for (int64_t i = 0; i < leading.numel(); ++i) {
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (int64_t j = 0; j < k; ++j) sum += x[(i * m + row) * k + j] * y[(i * k + j) * n + column];
        worst = test::max_or_nan(worst, std::abs(sum - z[(i * m + row) * n + column]));
      }
    }
  }
  return worst;
}

/// The allowed rounding error of a float32 sum of `terms` products of normal numbers: each rounding is about 6e-8 of
/// a partial sum. They add up as a random walk, with a margin of 8.
double bound(int64_t terms) { return 8 * 6e-8 * static_cast<double>(terms); }

}  // namespace

TEST_CASE("matmul multiplies") {
  const Tensor a = tensor({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor b = tensor({1, 0, 0, 1, 2, -1}, {3, 2});
  CHECK(matmul(a, b).to_vector<float>() == std::vector<float>{7, -1, 16, -1});
  CHECK(matmul(a, b).shape() == Shape{2, 2});
  CHECK(matmul(tensor({1, 2, 3}), tensor({4, 5, 6})).item<float>() == 32);
  CHECK(matmul(tensor({1, 2, 3}), tensor({4, 5, 6})).rank() == 0);
  CHECK(matmul(tensor({1, -1}), a).to_vector<float>() == std::vector<float>{-3, -3, -3});
  CHECK(matmul(a, tensor({1, 0, -1})).to_vector<float>() == std::vector<float>{-2, -2});
  CHECK(matmul(zeros({3, 0}), zeros({0, 2})).to_vector<float>() == std::vector<float>(6, 0));
  CHECK(matmul(zeros({0, 3}), zeros({3, 2})).shape() == Shape{0, 2});
}

TEST_CASE("matmul agrees with plain sums in every layout and size class") {
  Generator generator(1);
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                                {3, 5, 7},
                                {1, 130, 64},
                                {130, 1, 64},
                                {200, 70, 33},
                                {500, 520, 20},
                                {15, 60, 40},      // thin
                                {16, 48, 16},      // the smallest that is not thin
                                {17, 49, 129},     // ragged in every direction
                                {300, 97, 150},    // panels that tasks share, a sum in two parts
                                {100, 300, 900},   // wide, and in two parts
                                {100, 600, 500},   // each task packs its own panels
                                {300, 600, 500},   // but many share a factor of this size
                                {770, 1100, 250},  // or in two pieces of columns
                                {770, 300, 900},   // or in two parts of the sum
                                {65, 66, 1700},
                                {2, 3, 20000},
                                {1, 1, 100000}}) {
    CAPTURE(m);
    CAPTURE(n);
    CAPTURE(k);
    const Tensor a = randn({m, k}, generator), b = randn({k, n}, generator);
    const Tensor a_turned = transpose(transpose(a).contiguous()), b_turned = transpose(transpose(b).contiguous());
    CHECK(error_of_product(matmul(a, b), a, b) < bound(k));
    CHECK(error_of_product(matmul(a_turned, b), a, b) < bound(k));
    CHECK(error_of_product(matmul(a, b_turned), a, b) < bound(k));
    CHECK(error_of_product(matmul(a_turned, b_turned), a, b) < bound(k));
  }
}

TEST_CASE("matmul takes operands with gaps, repeated rows and broadcast batches") {
  Generator generator(2);
  const Tensor wide = randn({6, 20}, generator), b = randn({10, 4}, generator);
  const Tensor gaps = wide.slice(1, 0, 20, 2);  // no unit stride
  CHECK(error_of_product(matmul(gaps, b), gaps, b) < bound(10));
  const Tensor repeated = randn({1, 10}, generator).expand({5, 10});  // row stride 0
  CHECK(error_of_product(matmul(repeated, b), repeated, b) < bound(10));
  const Tensor window = detail::as_strided(wide.flatten(), {5, 10}, {3, 1}, 0);  // rows overlap
  CHECK(error_of_product(matmul(window, b), window, b) < bound(10));

  const Tensor x = randn({2, 1, 5, 10}, generator), y = randn({3, 10, 4}, generator);
  CHECK(matmul(x, y).shape() == Shape{2, 3, 5, 4});
  CHECK(error_of_product(matmul(x, y), x, y) < bound(10));
  const Tensor heads = randn({2, 5, 3, 10}, generator).transpose(1, 2);  // [2, 3, 5, 10]
  CHECK(error_of_product(matmul(heads, y), heads, y) < bound(10));
  const Tensor tall = randn({3, 1, 70, 40}, generator), sheets = randn({2, 40, 33}, generator);
  CHECK(error_of_product(matmul(tall, sheets), tall, sheets) < bound(40));
  const Tensor sparse = randn({70, 80}, generator).slice(1, 0, 80, 2), held = randn({80, 60}, generator);
  const Tensor rare = held.slice(0, 0, 80, 2).slice(1, 0, 60, 2);  // no unit stride either
  CHECK(error_of_product(matmul(sparse, rare), sparse, rare) < bound(40));
  const Tensor many = randn({700, 4, 6}, generator), others = randn({700, 6, 3}, generator);
  CHECK(error_of_product(matmul(many, others), many, others) < bound(6));
}

TEST_CASE("matmul has the same bits for any number of threads") {
  Generator generator(3);
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{768, 128, 512},
                                {96, 96, 6272},
                                {65, 128, 768},
                                {33, 1000, 90},
                                {8, 500, 600},
                                {300, 600, 500},
                                {770, 1100, 250}}) {
    const Tensor a = randn({m, k}, generator), b = randn({k, n}, generator);
    test::check_threads_change_no_bit([&] { return std::vector<Tensor>{matmul(a, b)}; });
  }
}

TEST_CASE("matmul of float32 is as exact as sums of float32 products in every size class") {
  Generator generator(6);
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{64, 64, 64}, {33, 70, 47}, {200, 520, 128}, {96, 190, 3000}}) {
    CAPTURE(k);
    const Tensor a = randn({m, k}, generator), b = randn({k, n}, generator);
    const Tensor x = a.to(DType::float64), y = b.to(DType::float64);
    // Each error in units of 2^-24 Σ|a||b|, which is half a unit in the last place if all terms have one sign.
    // Measured: 0.06 to 0.5.
    const Tensor error = (matmul(a, b).to(DType::float64) - matmul(x, y)) / matmul(abs(x), abs(y));
    CHECK(0x1p24 * std::sqrt(mean(error * error).item<double>()) < 0.6);
  }
}

TEST_CASE("matmul keeps infinities, NaN and what overflows, and only those") {
  Generator generator(7);
  constexpr float kInfinity = std::numeric_limits<float>::infinity(), kMost = std::numeric_limits<float>::max();
  const int64_t m = 70, n = 100, k = 80;
  std::vector<float> values = randn({m, k}, generator).to_vector<float>();
  values[3 * k + 5] = kInfinity;
  values[20 * k + 40] = -kInfinity;
  values[33 * k + 1] = std::numeric_limits<float>::quiet_NaN();
  values[40 * k + 2] = std::bit_cast<float>(0x7fffffffU);  // a GPU's NaN
  values[41 * k + 3] = std::bit_cast<float>(0xffffffffU);
  values[50 * k + 79] = kMost;
  values[65 * k + 7] = -kMost / 4;
  const Tensor a = tensor(values, {m, k}), b = randn({k, n}, generator), small = full({k, n}, 0.01);
  for (const Tensor& right : {b, small}) {
    const std::vector<double> expected = matmul(a.to(DType::float64), right.to(DType::float64)).to_vector<double>();
    const std::vector<float> found = matmul(a, right).to_vector<float>();
    int64_t wrong = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const auto rounded = static_cast<float>(expected[i]);
      const bool close = std::abs(found[i] - rounded) <= 1e-5F * std::max(1.0F, std::abs(rounded));
      wrong += !(std::isnan(rounded) ? std::isnan(found[i]) : found[i] == rounded || close);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("matmul of float64 is exact to float64") {
  Generator generator(4);
  const Tensor a = randn({40, 3000}, generator, DType::float64), b = randn({3000, 30}, generator, DType::float64);
  CHECK(error_of_product(matmul(a, b), a, b) < 1e-11);
}

TEST_CASE("matmul: the gradient of one matrix beside a batch is one product") {
  Generator rng(4);
  Tensor w = randn({64, 64}, rng).set_requires_grad(), x = randn({32, 2, 64, 1}, rng);
  release_cached_memory();
  reset_peak_memory();
  const int64_t live = memory_stats().live;
  const Tensor dw = grad({matmul(w, x)}, {w}, {.grad_outputs = {ones({32, 2, 64, 1})}})[0];
  CHECK(memory_stats().peak - live < 10 * 64 * 64 * 4);  // the products of the batch are 64 times as large as w
  const Tensor expected = sum(matmul(ones({32, 2, 64, 1}), transpose(x)), {0, 1});
  CHECK(allclose(dw, expected, 1e-5, 1e-4));
}

TEST_CASE("matmul says what does not fit") {
  const Tensor a = zeros({32, 784}), b = zeros({128, 10});
  CHECK(contains(message_of([&] { matmul(a, b); }),
                 "matmul: inner dimensions differ: a[32, 784] · b[128, 10] (784 ≠ 128) ("));  // no transpose fits
  CHECK(contains(message_of([&] { matmul(a, zeros({10, 784})); }), "(784 ≠ 10); did you mean transpose(b)?"));
  CHECK(contains(message_of([&] { matmul(zeros({784, 32}), zeros({784, 10})); }), "did you mean transpose(a)?"));
  CHECK(contains(message_of([&] { matmul(zeros({784, 32}), zeros({784})); }), "did you mean transpose(a)?"));
  CHECK(contains(message_of([&] { matmul(a, zeros({3})); }), "(784 ≠ 3) ("));
  CHECK(contains(message_of([&] { matmul(a, b); }), "matmul_test.cpp:"));
  CHECK_THROWS_AS(matmul(a, b), ShapeError);
  CHECK_THROWS_WITH_AS(matmul(scalar(1), b), doctest::Contains("rank 0 has no inner dimension; use a * b"),
                       ShapeError);
  CHECK(contains(message_of([] { matmul(zeros({2, 3, 4}), zeros({3, 4, 5})); }),
                 "matmul: leading dimensions do not broadcast: a[2, 3, 4] · b[3, 4, 5] (2 ≠ 3)"));
  CHECK_THROWS_AS(matmul(a, zeros({784, 10}, DType::float64)), DTypeError);
  CHECK_THROWS_AS(matmul(zeros({2, 2}, DType::int64), zeros({2, 2}, DType::int64)), DTypeError);
}

TEST_CASE("linear is x · weightᵀ + bias") {
  const Tensor weight = tensor({1, 2, 3, 4, 5, 6}, {3, 2}), bias = tensor({10, 20, 30});
  CHECK(linear(tensor({1, -1}), weight, bias).to_vector<float>() == std::vector<float>{9, 19, 29});
  CHECK(linear(tensor({1, -1}), weight).to_vector<float>() == std::vector<float>{-1, -1, -1});
  CHECK(linear(zeros({2, 4, 2}), weight, bias).shape() == Shape{2, 4, 3});
  CHECK(linear(zeros({2, 0}), zeros({3, 0}), bias).to_vector<float>() == std::vector<float>{10, 20, 30, 10, 20, 30});

  Generator generator(5);
  const Tensor x = randn({700, 2000}, generator), w = randn({20, 2000}, generator);
  const Tensor strided = transpose(transpose(x).contiguous());
  CHECK(error_of_product(linear(x, w), x, transpose(w)) < bound(2000));
  CHECK(error_of_product(linear(strided, w), x, transpose(w)) < bound(2000));
}

TEST_CASE("linear adds the bias once, however the product is cut") {
  Generator generator(8);
  for (const auto& [rows, out, in] :
       {std::array<int64_t, 3>{700, 20, 2000}, {100, 700, 30}, {50, 40, 5000}, {100, 50, 300}, {5, 700, 30}}) {
    CAPTURE(out);
    const Tensor x = randn({rows, in}, generator), weight = randn({out, in}, generator);
    const std::vector<float> without = linear(x, weight).to_vector<float>();
    const Tensor dense = randn({out}, generator), gaps = randn({3 * out}, generator).slice(0, 0, 3 * out, 3);
    for (const Tensor& bias : {dense, gaps}) {
      const std::vector<float> with = linear(x, weight, bias).to_vector<float>(), added = bias.to_vector<float>();
      double worst = 0;
      for (size_t i = 0; i < with.size(); ++i) {
        worst =
            test::max_or_nan(worst, std::abs(double{with[i]} - double{without[i]} - double{added[i % added.size()]}));
      }
      CHECK(worst < bound(in));
    }
  }
}

TEST_CASE("linear computes only the gradients that are asked for") {
  Generator generator(6);
  const Tensor x = randn({3, 4}, generator), weight = randn({2, 4}, generator);
  Tensor bias = zeros({2});
  bias.set_requires_grad();
  Tensor frozen = weight.clone();
  const Tensor y = linear(x, frozen, bias);
  frozen.fill_(0);  // not needed for the gradient of the bias
  CHECK(grad({y}, {bias}, {.grad_outputs = {ones({3, 2})}})[0].to_vector<float>() == std::vector<float>{3, 3});
}

TEST_CASE("linear says what does not fit") {
  CHECK(contains(message_of([] { linear(zeros({5, 3}), zeros({3, 4})); }),
                 "linear: x[5, 3] does not fit weight[3, 4]: the last dim of x must be 4; did you mean "
                 "transpose(weight)?"));
  CHECK_THROWS_AS(linear(scalar(1), zeros({3, 4})), ShapeError);
  CHECK_THROWS_WITH_AS(linear(zeros({5, 4}), zeros({3, 2, 4})),
                       doctest::Contains("weight must be [out, in], not [3, 2, 4]"), ShapeError);
  CHECK_THROWS_AS(linear(zeros({5, 4}), zeros({3, 4}), zeros({4})), ShapeError);
  CHECK_THROWS_AS(linear(zeros({5, 4}), zeros({3, 4}, DType::float64)), DTypeError);
}

TEST_CASE("transpose exchanges the last two dims without a copy") {
  const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {1, 2, 3});
  const Tensor y = transpose(x);
  CHECK(y.shape() == Shape{1, 3, 2});
  CHECK(y.to_vector<float>() == std::vector<float>{1, 4, 2, 5, 3, 6});
  CHECK(detail::view(y).data == detail::view(x).data);
  CHECK(contains(message_of([] { transpose(tensor({1, 2})); }), "transpose: takes at least two dims"));
}

}  // namespace linnet
