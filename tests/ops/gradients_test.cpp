#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include <doctest/doctest.h>
#include <linnet/core/error.h>
#include <linnet/core/tape.h>
#include <linnet/ops/creation.h>

#include "tests/support/gradient_check.h"
#include "tests/support/op_case.h"
#include "tests/support/public_functions.h"
#include "tests/support/values.h"

/// What the registry of op cases is for: each case becomes a gradient check, and a public function without a
/// case a failure.

namespace linnet::test {
namespace {

const Registry& registry() {
  static const Registry all = all_cases();
  return all;
}

/// The message of the AutogradError that `f` ends in, or what it did instead.
template <class F>
std::string refusal(F&& f) {
  try {
    f();
    return "nothing was thrown";
  } catch (const AutogradError& error) {
    return std::string("AutogradError: ") + error.what();
  } catch (const std::exception& error) {
    return std::string("another error: ") + error.what();
  }
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<Tensor> leaves_of(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.detach().clone());
    if (is_floating(input.dtype())) leaves.back().set_requires_grad();
  }
  return leaves;
}

}  // namespace

TEST_CASE("gradients: every op agrees with central differences, in every layout") {
  for (const OpCase& op_case : registry().differentiable) {
    std::string failure;
    try {
      failure = check_gradients(op_case.f, op_case.inputs, {.twice = op_case.twice}).failure;
    } catch (const std::exception& error) {
      failure = error.what();
    }
    CHECK_MESSAGE(failure.empty(), op_case.op, " (", op_case.variant, "): ", failure);
  }
}

TEST_CASE("gradients: a fused op says why it has no second derivative") {
  for (const OpCase& op_case : registry().differentiable) {
    if (op_case.twice) continue;
    const std::string message = refusal([&] {
      std::vector<Tensor> arguments = leaves_of(op_case.inputs);
      const Tensor result = op_case.f(arguments);
      arguments.push_back(uniform(result.shape(), 5).set_requires_grad());
      gradient_of(op_case.f)(arguments);
    });
    CHECK_MESSAGE(contains(message, "AutogradError: "), op_case.op, " (", op_case.variant, "): ", message);
    CHECK_MESSAGE(contains(message, "fused"), op_case.op, " (", op_case.variant, "): ", message);
  }
}

TEST_CASE("gradients: a fused op refuses a second derivative of a constant cotangent and of frozen inputs too") {
  for (const OpCase& op_case : registry().differentiable) {
    if (op_case.twice) continue;
    for (const bool frozen : {false, true}) {  // all inputs but the first
      std::vector<Tensor> inputs = leaves_of(op_case.inputs);
      for (size_t i = 1; frozen && i < inputs.size(); ++i) inputs[i] = inputs[i].detach();
      const Tensor result = op_case.f(inputs);
      const GradOptions options{.grad_outputs = {uniform(result.shape(), 5)}, .create_graph = true};
      const std::string message = refusal([&] { grad({result}, {inputs[0]}, options); });
      CHECK_MESSAGE(contains(message, "AutogradError: "), op_case.op, " (", op_case.variant, "): ", message);
      CHECK_MESSAGE(contains(message, "it is fused"), op_case.op, " (", op_case.variant, "): ", message);
    }
  }
}

TEST_CASE("gradients: anomaly mode finds no NaN in clean numbers, whatever memory held before") {
  for (const OpCase& op_case : registry().differentiable) {
    const std::vector<Tensor> leaves = leaves_of(op_case.inputs);
    const Shape shape = op_case.f(leaves).shape();
    const Tensor cotangent = uniform(shape, 5);
    const auto leave_nan_behind = [&] {
      std::vector<Tensor> dirt;
      for (int i = 0; i < 8; ++i) {
        dirt.push_back(full(shape, NAN, DType::float64));
        for (const Tensor& leaf : leaves) dirt.push_back(full(leaf.shape(), NAN, leaf.dtype()));
      }
    };
    std::string failure;
    try {
      leave_nan_behind();
      const AnomalyMode mode;
      const Tensor result = op_case.f(leaves);
      leave_nan_behind();
      if (result.requires_grad()) backward(result, {.grad = cotangent});
    } catch (const std::exception& error) {
      failure = error.what();
    }
    CHECK_MESSAGE(failure.empty(), op_case.op, " (", op_case.variant, "): ", failure);
  }
}

TEST_CASE("gradients: an op without one refuses inputs that require it") {
  for (const NonDifferentiableCase& op_case : registry().non_differentiable) {
    const std::vector<Tensor> leaves = leaves_of(op_case.inputs);
    const std::string message = refusal([&] { op_case.f(leaves); });
    CHECK_MESSAGE(contains(message, "AutogradError: "), op_case.op, ": ", message);
    CHECK_MESSAGE(contains(message, "has no gradient: "), op_case.op, ": ", message);
    const NoGrad no_grad;
    CHECK_NOTHROW(op_case.f(leaves));
  }
}

TEST_CASE("gradients: the registry names every public function, and no other") {
  std::set<std::string> public_functions;
  for (const auto& file : std::filesystem::directory_iterator(LINNET_SOURCE_DIR "/ops")) {
    if (file.path().extension() != ".h") continue;
    public_functions.merge(functions_in(read_text(file.path())));
  }
  for (const std::string& name : tensor_members_in(read_text(LINNET_SOURCE_DIR "/core/tensor.h"))) {
    public_functions.insert("Tensor::" + name);
  }
  std::set<std::string> registered;
  for (const OpCase& op_case : registry().differentiable) registered.insert(op_case.op);
  for (const NonDifferentiableCase& op_case : registry().non_differentiable) registered.insert(op_case.op);
  for (const auto& [name, reason] : registry().exempt) registered.insert(name);

  for (const std::string& name : public_functions) {
    CHECK_MESSAGE(registered.contains(name), name, " has no gradient check: add it to tests/ops/*_cases.cpp");
  }
  for (const std::string& name : registered) {
    CHECK_MESSAGE(public_functions.contains(name), name, " is in the registry, but no header declares it");
  }
}

TEST_CASE("gradients: each op is tried on broadcast, empty and size-1 inputs somewhere") {
  std::set<std::string> empty, size_one, all;
  for (const OpCase& op_case : registry().differentiable) {
    all.insert(op_case.op);
    for (const Tensor& input : op_case.inputs) {
      if (input.numel() == 0) empty.insert(op_case.op);
      if (std::count(input.shape().begin(), input.shape().end(), 1) > 0) size_one.insert(op_case.op);
    }
  }
  CHECK(empty.size() > all.size() / 2);
  CHECK(size_one.size() > all.size() / 2);
}

}  // namespace linnet::test
