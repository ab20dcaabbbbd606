#include "tests/support/goldens.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>

#include "tests/support/near.h"

namespace linnet::test {

Tensor Golden::get(const std::string& tensor) const {
  const auto found = tensors.find(tensor);
  return found == tensors.end() ? Tensor() : found->second;
}

TensorMap Golden::leaves(DType dtype) const {
  TensorMap leaves;
  for (const auto& [tensor, value] : tensors) {
    if (tensor == "output" || !get("grad_" + tensor).defined()) continue;  // grad_output is the output's cotangent
    leaves[tensor] = value.to(dtype).clone().set_requires_grad();
  }
  return leaves;
}

std::vector<Golden> read_goldens(const std::string& file) {
  const Safetensors content = read_safetensors(std::string(LINNET_TEST_DATA "/goldens/") + file + ".safetensors");
  std::map<std::string, Golden> cases;
  for (const auto& [name, value] : content.tensors) {
    const size_t dot = name.find('.');
    Golden& golden = cases[name.substr(0, dot)];
    golden.name = name.substr(0, dot);
    golden.tensors[name.substr(dot + 1)] = value;
  }
  std::vector<Golden> all;
  for (auto& [name, golden] : cases) {
    const auto parameters = content.metadata.find(name);
    if (parameters == content.metadata.end()) throw std::runtime_error(file + ": no parameters for the case " + name);
    golden.parameters = nlohmann::json::parse(parameters->second);
    all.push_back(std::move(golden));
  }
  return all;
}

double error_bound(const Golden& golden, DType dtype) {
  if (dtype == DType::float64) return 1e-9;
  // The unit roundoff of float32 for each term of the longest sum, and for 4 operations at least.
  return std::max(golden.parameters.at("reduction").get<double>(), 4.0) * 0x1p-24;
}

void check_near(const Golden& golden, const std::string& name, const Tensor& actual, double bound) {
  CAPTURE(name);
  const Tensor expected = golden.get(name);
  REQUIRE(expected.defined());
  CHECK(actual.shape() == expected.shape());
  CHECK(relative_error(actual, expected.to_vector<double>()) < bound);
}

void check_with_gradients(const Golden& golden, const Tensor& output, const TensorMap& leaves, double bound) {
  check_near(golden, "output", output, bound);
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  for (const auto& [name, leaf] : leaves) {
    names.push_back(name);
    tensors.push_back(leaf);
  }
  CHECK(leaves.size() == golden.leaves(output.dtype()).size());
  const std::vector<Tensor> gradients =
      grad({output}, tensors, {.grad_outputs = {golden.get("grad_output").to(output.dtype())}});
  for (size_t i = 0; i < names.size(); ++i) check_near(golden, "grad_" + names[i], gradients[i], bound);
}

Comparison function_comparison(std::function<Tensor(const Golden& golden, const TensorMap& in)> f) {
  return [f = std::move(f)](const Golden& golden, DType dtype) {
    const TensorMap leaves = golden.leaves(dtype);
    check_with_gradients(golden, f(golden, leaves), leaves, error_bound(golden, dtype));
  };
}

void compare_goldens(const std::string& file, DType dtype, const std::map<std::string, Comparison>& by_op) {
  std::set<std::string> ops;
  for (const Golden& golden : read_goldens(file)) {
    CAPTURE(golden.name);
    ops.insert(golden.op());
    const auto compare = by_op.find(golden.op());
    if (compare == by_op.end()) {
      FAIL_CHECK("no comparison for the op " << golden.op());
    } else {
      compare->second(golden, dtype);
    }
  }
  for (const auto& [op, compare] : by_op) CHECK_MESSAGE(ops.count(op) > 0, "no case of ", op, " in ", file);
}

}  // namespace linnet::test
