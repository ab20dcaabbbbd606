#include <linnet/core/autograd/gradcheck.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <linnet/core/autograd/functional.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/core/error.h>
#include <linnet/core/position.h>
#include <linnet/core/random/philox.h>

namespace linnet {
namespace {

/// The indices of element `i`, formatted for a message: [1, 2].
std::string place(size_t i, const Shape& shape) {
  return to_string(detail::position_of(static_cast<int64_t>(i), shape));
}

/// A function of `inputs`, which all require gradients. Messages use `input_names` and `result_names`.
struct Checked {
  detail::ListFunction f;
  std::vector<Tensor> inputs;
  std::vector<std::string> input_names, result_names;
};

/// The message about the first difference; empty if there is none.
std::string first_difference(const Checked& checked, const GradcheckOptions& options) {
  const EnableGrad enable_grad;
  std::vector<Tensor> leaves;
  leaves.reserve(checked.inputs.size());
  for (const Tensor& input : checked.inputs) leaves.push_back(input.detach().set_requires_grad());
  const std::vector<Tensor> results = checked.f(leaves);
  std::vector<std::vector<std::vector<double>>> analytic(results.size());  // [result][input], times 2
  for (size_t r = 0; r < results.size(); ++r) {
    // The gradient of the result is 2, not 1, to find a backward that forgets to multiply by it.
    for (const Tensor& twice : detail::jacobians(results[r], leaves, 2)) {
      analytic[r].push_back(twice.to_vector<double>());
    }
  }
  for (size_t k = 0; k < leaves.size(); ++k) {
    const auto rows = detail::central_differences(checked.f, checked.inputs, k, [&](double) { return options.eps; });
    for (size_t i = 0; i < rows.size(); ++i) {
      auto numeric = rows[i].begin();
      for (size_t r = 0; r < results.size(); ++r) {
        for (size_t j = 0; j < static_cast<size_t>(results[r].numel()); ++j, ++numeric) {
          const double backward = analytic[r][k][j * rows.size() + i] / 2;
          if (std::abs(backward - *numeric) <= options.atol + options.rtol * std::abs(*numeric)) continue;
          return fmt::format("the derivative of {} at {} by {} at {} is {} by backward and {} by central differences",
                             checked.result_names[r], place(j, results[r].shape()), checked.input_names[k],
                             place(i, leaves[k].shape()), backward, *numeric);
        }
      }
    }
  }
  return "";
}

bool agrees(const Checked& checked, const GradcheckOptions& options, const char* name, Where where) {
  const std::string difference = first_difference(checked, options);
  const Call call(name, where);
  if (!difference.empty() && options.raise_exception) throw AutogradError(difference);
  return difference.empty();
}

/// f as a function of only those inputs that require a gradient.
Checked of_tracked_inputs(const std::function<Tensor(const std::vector<Tensor>& inputs)>& f,
                          const std::vector<Tensor>& inputs, const char* name, Where where) {
  const Call call(name, where);
  std::vector<size_t> tracked;
  Checked checked;
  checked.result_names = {"the result"};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) continue;
    if (inputs[i].dtype() != DType::float64) {
      throw DTypeError(fmt::format("input {} is {}, and differences need float64; convert it with to(DType::float64)",
                                   i, name_of(inputs[i].dtype())));
    }
    tracked.push_back(i);
    checked.inputs.push_back(inputs[i].detach());
    checked.input_names.push_back(fmt::format("input {}", i));
  }
  if (tracked.empty()) throw ValueError("no input requires a gradient; call set_requires_grad() on those to check");
  checked.f = [f, inputs, tracked, shape = std::optional<Shape>(), name,
               where](const std::vector<Tensor>& given) mutable {
    std::vector<Tensor> all = inputs;
    for (size_t k = 0; k < tracked.size(); ++k) all[tracked[k]] = given[k];
    const Tensor result = f(all);
    if (!shape) shape = result.shape();  // the first call is at the inputs themselves
    if (result.shape() == *shape) return std::vector{result};
    const Call at(name, where);
    throw AutogradError(
        fmt::format("f's result changes its shape within eps of the inputs, from {} to {}, so it has no derivative "
                    "there; check f at other inputs",
                    to_string(*shape), to_string(result.shape())));
  };
  return checked;
}

}  // namespace

std::vector<std::vector<double>> detail::central_differences(const ListFunction& f, std::vector<Tensor> inputs,
                                                             size_t k, const std::function<double(double x)>& step) {
  const Device device = inputs[k].device();
  Tensor moved = inputs[k].detach().to(Device::cpu).clone();
  const auto results_at = [&](size_t i, double value) {
    moved.mutable_data<double>()[i] = value;
    inputs[k] = moved.to(device);
    std::vector<double> numbers;
    for (const Tensor& result : f(inputs)) {
      const std::vector<double> more = result.to_vector<double>();
      numbers.insert(numbers.end(), more.begin(), more.end());
    }
    return numbers;
  };
  std::vector<std::vector<double>> rows(static_cast<size_t>(moved.numel()));
  for (size_t i = 0; i < rows.size(); ++i) {
    const double x = moved.data<double>()[i], above = x + step(x), below = x - step(x);
    const std::vector<double> plus = results_at(i, above), minus = results_at(i, below);
    moved.mutable_data<double>()[i] = x;
    for (size_t j = 0; j < plus.size(); ++j) rows[i].push_back((plus[j] - minus[j]) / (above - below));
  }
  return rows;
}

detail::ListFunction detail::gradient_of(const std::function<Tensor(const std::vector<Tensor>& inputs)>& f) {
  return [f](const std::vector<Tensor>& arguments) {
    std::vector<Tensor> inputs(arguments.begin(), arguments.end() - 1);
    for (Tensor& input : inputs) {
      if (!input.requires_grad()) input = input.detach().set_requires_grad();
    }
    return grad_or_zeros({f(inputs)}, inputs,
                         {.grad_outputs = {arguments.back()}, .create_graph = arguments.back().requires_grad()});
  };
}

bool gradcheck(const std::function<Tensor(const std::vector<Tensor>& inputs)>& f, const std::vector<Tensor>& inputs,
               const GradcheckOptions& options, Where where) {
  return agrees(of_tracked_inputs(f, inputs, "gradcheck", where), options, "gradcheck", where);
}

bool gradgradcheck(const std::function<Tensor(const std::vector<Tensor>& inputs)>& f,
                   const std::vector<Tensor>& inputs, const GradcheckOptions& options, Where where) {
  Checked checked = of_tracked_inputs(f, inputs, "gradgradcheck", where);
  const Tensor result = checked.f(checked.inputs)[0];
  Tensor random = Tensor::empty(result.shape(), DType::float64);  // in [−1, 1)
  uint64_t i = 0;
  for (double& number : random.mutable_data<double>()) number = 2 * to_uniform(random_word({0, 0}, i++)) - 1;

  const auto of_tracked = [f = checked.f](const std::vector<Tensor>& in) { return f(in)[0]; };
  checked.f = detail::gradient_of(of_tracked);
  checked.inputs.push_back(random.to(result.device()));
  checked.result_names.clear();
  for (const std::string& name : checked.input_names) checked.result_names.push_back("the gradient of " + name);
  checked.input_names.push_back("the gradient of the result");
  return agrees(checked, options, "gradgradcheck", where);
}

}  // namespace linnet
