#include "tests/support/gradient_check.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <linnet/core/autograd/functional.h>

#include "tests/support/layout.h"
#include "tests/support/values.h"

namespace linnet::test {
namespace {

using Values = std::vector<double>;

// check_gradients describes these constants.
constexpr double kStep = 6e-6;
constexpr double kRelative = 1e-7;
constexpr double kRoundings = 64;
constexpr double kEpsilon = 0x1p-52;

std::vector<Tensor> on(Device device, std::vector<Tensor> tensors) {
  for (Tensor& tensor : tensors) tensor = tensor.to(device);
  return tensors;
}

std::vector<Values> values_of(const std::vector<Tensor>& tensors) {
  std::vector<Values> values;
  for (const Tensor& tensor : tensors) values.push_back(tensor.to_vector<double>());
  return values;
}

double largest(const Values& values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

/// The cotangents of all results, and the error that the numeric derivative of their product may have.
struct Weights {
  std::vector<Tensor> cotangents;
  std::vector<Values> values;
  double allowed = 0;
};

Weights weights_for(const std::vector<Tensor>& results, uint64_t seed) {
  Weights weights;
  for (const Tensor& result : results) weights.cotangents.push_back(uniform(result.shape(), ++seed));
  weights.values = values_of(weights.cotangents);
  const std::vector<Values> numbers = values_of(results);
  for (size_t r = 0; r < numbers.size(); ++r) {
    for (size_t i = 0; i < numbers[r].size(); ++i) {
      const double truncation = kStep * kStep;
      const double rounding = kRoundings * kEpsilon / kStep * std::abs(numbers[r][i]);
      weights.allowed += std::abs(weights.values[r][i]) * (truncation + rounding);
    }
  }
  return weights;
}

/// d(c · f)/d inputs[k] by central differences.
Values numeric_gradient(const MultiFunction& f, const std::vector<Tensor>& inputs, size_t k, const Weights& weights) {
  const auto step = [](double x) { return kStep * std::max(1.0, std::abs(x)); };
  Values gradient;
  for (const Values& row : detail::central_differences(f, inputs, k, step)) {
    double& sum = gradient.emplace_back(0);
    size_t column = 0;
    for (const Values& cotangents : weights.values) {
      for (const double cotangent : cotangents) sum += cotangent * row[column++];
    }
  }
  return gradient;
}

/// One layout for every input.
using Layouts = std::vector<Layout>;

std::vector<Layouts> layouts_to_check(size_t inputs) {
  std::vector<Layouts> all;
  for (const Layout layout : {Layout::contiguous, Layout::transposed, Layout::gapped}) {
    all.push_back(Layouts(inputs, layout));
  }
  for (size_t gapped = 0; inputs > 1 && gapped < inputs; ++gapped) {
    all.push_back(Layouts(inputs, Layout::contiguous));
    all.back()[gapped] = Layout::gapped;
  }
  return all;
}

class Check {
 public:
  Check(const MultiFunction& f, const std::vector<Tensor>& inputs, const CheckOptions& options)
      : f_(f), inputs_(inputs), device_(options.device) {
    const std::vector<Tensor> results = f(on(device_, inputs));
    weights_ = weights_for(results, options.seed);
    results_ = values_of(results);
    const MultiFunction there = [&](const std::vector<Tensor>& x) { return f(on(device_, x)); };
    for (size_t k = 0; k < inputs.size(); ++k) numeric_.push_back(numeric_gradient(there, inputs, k, weights_));
  }

  CheckResult run() {
    for (const Layouts& layouts : layouts_to_check(inputs_.size())) {
      check(layouts);
      if (!result_) break;
    }
    return result_;
  }

 private:
  void check(const Layouts& layouts) {
    std::vector<Tensor> leaves, views;
    for (size_t k = 0; k < inputs_.size(); ++k) {
      leaves.push_back(pack(inputs_[k], layouts[k]).to(device_).set_requires_grad());
      views.push_back(unpack(leaves[k], layouts[k]));
    }
    const std::vector<Tensor> results = f_(views);
    const std::vector<Values> values = values_of(results);
    for (size_t r = 0; r < values.size(); ++r) {
      compare(fmt::format("result {} ({})", r, name_of(layouts[0])), values[r], results_[r],
              1e-12 * (1 + largest(results_[r])));
    }
    const std::vector<Tensor> gradients =
        detail::grad_or_zeros(results, leaves, {.grad_outputs = on(device_, weights_.cotangents)});
    for (size_t k = 0; k < leaves.size(); ++k) {
      const std::string what = fmt::format("gradient of input {} ({})", k, name_of(layouts[k]));
      if (gradients[k].shape() != leaves[k].shape())
        return fail(what + " has shape " + to_string(gradients[k].shape()));
      compare(what, unpack(gradients[k], layouts[k]).to_vector<double>(), numeric_[k],
              kRelative * largest(numeric_[k]) + weights_.allowed);
      if (const Tensor unused = gaps(gradients[k], layouts[k]); unused.defined()) {
        compare(what + ", unused slots", unused.to_vector<double>(), Values(numeric_[k].size()), 0);
      }
    }
  }

  void compare(const std::string& what, const Values& actual, const Values& expected, double allowed) {
    if (actual.size() != expected.size()) {
      return fail(fmt::format("{}: {} elements instead of {}", what, actual.size(), expected.size()));
    }
    for (size_t i = 0; i < actual.size(); ++i) {
      const double difference = std::abs(actual[i] - expected[i]);
      if (difference > 0) result_.worst = std::max(result_.worst, difference / allowed);
      if (!(difference <= allowed)) {  // NaN fails too
        fail(fmt::format("{}, element {}: {} instead of {} (allowed: {})", what, i, actual[i], expected[i], allowed));
      }
    }
  }

  void fail(const std::string& message) {
    if (result_) result_.failure = message;
  }

  const MultiFunction& f_;
  const std::vector<Tensor>& inputs_;
  Device device_;
  Weights weights_;
  std::vector<Values> results_;
  std::vector<Values> numeric_;
  CheckResult result_;
};

}  // namespace

CheckResult check_gradients(const Function& f, const std::vector<Tensor>& inputs, const CheckOptions& options) {
  const MultiFunction first = [&](const std::vector<Tensor>& x) { return std::vector<Tensor>{f(x)}; };
  CheckResult result = Check(first, inputs, options).run();
  if (!result || !options.twice) return result;

  std::vector<Tensor> arguments = inputs;
  arguments.push_back(uniform(f(on(options.device, inputs)).shape(), options.seed + 100));
  const MultiFunction gradient = gradient_of(f);
  CheckOptions again = options;
  again.seed += 200;
  CheckResult second = Check(gradient, arguments, again).run();
  if (!second) second.failure = "second derivatives: " + second.failure;
  second.worst = std::max(second.worst, result.worst);
  return second;
}

}  // namespace linnet::test
