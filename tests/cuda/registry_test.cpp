#include <algorithm>
#include <cmath>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>

#include "tests/support/gpu.h"
#include "tests/support/gradient_check.h"
#include "tests/support/near.h"
#include "tests/support/values.h"

/// The registry of op cases on the GPU: the same gradient checks as on the CPU, and that the two agree.

namespace linnet::test {
namespace {

std::vector<Tensor> leaves_of(const std::vector<Tensor>& inputs, DType dtype, Device device) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.to(dtype).to(device).clone().set_requires_grad());
  return leaves;
}

/// The result of a case and the gradients of its inputs, one after the other.
std::vector<Tensor> results_of(const OpCase& op_case, DType dtype, Device device) {
  const std::vector<Tensor> leaves = leaves_of(op_case.inputs, dtype, device);
  std::vector<Tensor> results{op_case.f(leaves)};
  if (!results[0].requires_grad()) return results;
  const Tensor cotangent = uniform(results[0].shape(), 9).to(results[0].dtype()).to(device);
  for (const Tensor& gradient : grad({results[0]}, leaves, {.grad_outputs = {cotangent}, .allow_unused = true})) {
    if (gradient.defined()) results.push_back(gradient);
  }
  return results;
}

double norm_of(const Tensor& x) { return relative_error(x, std::vector<double>(static_cast<size_t>(x.numel()))); }

/// ‖a − b‖ / max(1, ‖b‖): inputs are of about 1, and so are the terms that may cancel in a gradient.
double difference(const Tensor& a, const Tensor& b) {
  const double norm = norm_of(b);
  return relative_error(a, b.to_vector<double>()) * (norm == 0 ? 1 : std::min(norm, 1.0));
}

/// The allowed rounding error of a case's results. The error of a sum of n terms of about 1 is at most √n · ε, except
/// in unlikely cases; no sum has more terms than the largest of its tensors has elements. The factor is for the
/// roundings within a term, and for the consecutive ops of a composite.
double allowed_for(const OpCase& op_case, const std::vector<Tensor>& results, DType dtype) {
  int64_t terms = 1;
  for (const std::vector<Tensor>* tensors : {&op_case.inputs, &results}) {
    for (const Tensor& x : *tensors) terms = std::max(terms, x.numel());
  }
  constexpr double kFactor = 16;
  return kFactor * std::sqrt(static_cast<double>(terms)) * (dtype == DType::float32 ? 0x1p-23 : 0x1p-52);
}

/// The results that differ between the devices by more than rounding; empty if none.
std::string disagreement(const OpCase& on_cpu, const OpCase& on_gpu, DType dtype) {
  case_device() = Device::cpu;
  const std::vector<Tensor> expected = results_of(on_cpu, dtype, Device::cpu);
  const std::vector<Tensor> exact = results_of(on_cpu, DType::float64, Device::cpu);
  case_device() = Device::cuda;
  const std::vector<Tensor> actual = results_of(on_gpu, dtype, Device::cuda);
  if (actual.size() != expected.size()) return "another number of gradients";
  const double allowed = allowed_for(on_cpu, expected, dtype);
  for (size_t r = 0; r < actual.size(); ++r) {
    const std::string what = r == 0 ? "result" : "gradient " + std::to_string(r - 1);
    if (actual[r].device() != Device::cuda) return what + " is not on the GPU";
    if (!(actual[r].shape() == expected[r].shape())) return what + " has shape " + to_string(actual[r].shape());
    // If the exact gradient is 0, as for a logit's bias, only rounding errors of larger terms remain, which differ.
    if (r > 0 && norm_of(exact[r]) < 1e-10) {
      if (!std::isfinite(norm_of(actual[r]))) return what + " is 0, and not finite there";
      continue;
    }
    const double error = difference(actual[r], expected[r]);
    if (!(error <= allowed)) return what + " is off by " + std::to_string(error / allowed) + " times what is allowed";
  }
  return "";
}

/// The result of `f`, or its error.
template <class F>
std::string failure_of(F&& f) {
  try {
    return f();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("gpu: gradients agree with central differences, in every layout") {
  const size_t cases = all_cases().differentiable.size();
  if (!has_gpu(std::to_string(cases) + " gradient checks on the GPU")) return;
  const CasesOnGpu on_gpu;
  for (const OpCase& op_case : all_cases().differentiable) {
    const std::string failure = failure_of([&] {
      return check_gradients(op_case.f, op_case.inputs, {.twice = op_case.twice, .device = Device::cuda}).failure;
    });
    CHECK_MESSAGE(failure.empty(), op_case.op, " (", op_case.variant, "): ", failure);
  }
}

TEST_CASE("gpu: results and gradients agree with the CPU's") {
  const Registry on_cpu = all_cases();
  if (!has_gpu(std::to_string(2 * on_cpu.differentiable.size()) + " comparisons of the GPU with the CPU")) return;
  const CasesOnGpu guard;
  const Registry on_gpu = all_cases();
  for (const DType dtype : {DType::float64, DType::float32}) {
    for (size_t i = 0; i < on_gpu.differentiable.size(); ++i) {
      const OpCase& op_case = on_gpu.differentiable[i];
      const std::string failure = failure_of([&] { return disagreement(on_cpu.differentiable[i], op_case, dtype); });
      CHECK_MESSAGE(failure.empty(), op_case.op, " (", op_case.variant, ") in ", std::string(name_of(dtype)), ": ",
                    failure);
    }
  }
}

TEST_CASE("gpu: ops without a gradient agree with the CPU's") {
  const Registry on_cpu = all_cases();
  if (!has_gpu(std::to_string(on_cpu.non_differentiable.size()) + " ops without a gradient on the GPU")) return;
  const CasesOnGpu guard;
  for (const NonDifferentiableCase& op_case : on_cpu.non_differentiable) {
    std::vector<Tensor> inputs;
    for (const Tensor& input : op_case.inputs) inputs.push_back(input.to(Device::cuda));
    CHECK_MESSAGE(op_case.f(inputs).to_vector<double>() == op_case.f(op_case.inputs).to_vector<double>(), op_case.op);
  }
}

}  // namespace linnet::test
