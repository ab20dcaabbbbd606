#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <span>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>

#include "tests/support/max_or_nan.h"
#include "tests/support/op_case.h"
#include "tests/support/values.h"

/// The errors of float32: compares results and gradients of every op of the registry in float32 with those of the
/// same numbers in float64.

namespace linnet::test {
namespace {

/// The largest errors of an op, in units of √n·eps of the largest compared number: that of the result, or that of all
/// gradients. n is the number of elements of the largest input.
struct Errors {
  double value = 0, gradient = 0;
};

/// The error of several tensors, relative to the largest number of all.
double error_of(std::span<const Tensor> single, std::span<const Tensor> exact, double n) {
  double largest = 0, difference = 0;
  for (size_t t = 0; t < single.size(); ++t) {
    const std::vector<double> a = single[t].to_vector<double>(), b = exact[t].to_vector<double>();
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      if (!std::isfinite(b[i])) {
        CHECK((a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))));
        continue;
      }
      largest = std::max(largest, std::abs(b[i]));
      difference = max_or_nan(difference, std::abs(a[i] - b[i]));
    }
  }
  constexpr double kEps = std::numeric_limits<float>::epsilon();
  return difference == 0 ? 0 : difference / (std::sqrt(n) * kEps * largest);
}

/// A result and the gradients of its sum, weighted at random.
std::vector<Tensor> results_of(const OpCase& c, const std::vector<Tensor>& inputs, DType dtype) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.to(dtype).clone().set_requires_grad());
  const Tensor y = c.f(leaves);
  std::vector<Tensor> results{y.detach()};
  if (!y.requires_grad()) return results;
  const Tensor weights = uniform(y.shape(), 77).to(DType::float32).to(y.dtype());
  for (const Tensor& gradient : grad({y}, leaves, {.grad_outputs = {weights}, .allow_unused = true})) {
    if (gradient.defined()) results.push_back(gradient);
  }
  return results;
}

}  // namespace

TEST_CASE("precision: every op in float32 is within a few units of rounding of float64") {
  constexpr double kMost = 3;
  std::map<std::string, Errors> table;
  for (const OpCase& c : all_cases().differentiable) {
    CAPTURE(c.op);
    CAPTURE(c.variant);
    std::vector<Tensor> inputs;
    double n = 1;
    for (const Tensor& input : c.inputs) {
      inputs.push_back(input.detach().to(DType::float32));
      n = std::max(n, static_cast<double>(input.numel()));
    }
    const std::vector<Tensor> single = results_of(c, inputs, DType::float32);
    const std::vector<Tensor> exact = results_of(c, inputs, DType::float64);
    REQUIRE(single.size() == exact.size());
    const double value = error_of(std::span(single).first(1), std::span(exact).first(1), n);
    const double gradient = error_of(std::span(single).subspan(1), std::span(exact).subspan(1), n);
    CHECK(value <= kMost);
    // For a row of one number the gradient is (g - g)·rstd. An FMA leaves the rounding of g there, and rstd is
    // 1/√eps.
    if (c.op == "layer_norm" && c.variant == "size 1") {
      CHECK(gradient <= kMost / std::sqrt(1e-5));
      continue;
    }
    CHECK(gradient <= kMost);
    Errors& errors = table[c.op];
    errors.value = std::max(errors.value, value);
    errors.gradient = std::max(errors.gradient, gradient);
  }
  if (std::getenv("LINNET_PRECISION_TABLE") == nullptr) return;
  for (const auto& [op, errors] : table) {
    std::printf("| `%s` | %.2g | %.2g |\n", op.c_str(), errors.value, errors.gradient);
  }
}

}  // namespace linnet::test
