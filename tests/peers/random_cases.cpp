/// Runs the ops of a file of cases, which random_cases.py writes: linnet_cases CASES RESULTS
///
/// Both are safetensors files. The metadata of CASES maps each case's number to its op, the layout of its tensors and
/// its arguments. Case 7 has the tensors 7.input0, … and, for each result that has a gradient, 7.cotangent0, …
/// RESULTS has 7.result0, … and 7.grad0, …; its metadata has the text of an error.

#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <linnet/core/device/kernel_access.h>
#include <linnet/linnet.h>

#include "tests/peers/named_ops.h"

using namespace linnet;

namespace {

Shape shape_of(const nlohmann::json& sizes) { return sizes.get<std::vector<int64_t>>(); }

/// The inputs of a case, as views of its tensors; undefined if the case leaves one out.
std::vector<Tensor> inputs_of(const std::string& number, const TensorMap& tensors, const nlohmann::json& layouts) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < layouts.size(); ++i) {
    const nlohmann::json& layout = layouts[i];
    if (layout.is_null()) {
      inputs.emplace_back();
      continue;
    }
    const Tensor memory = tensors.at(fmt::format("{}.input{}", number, i));
    inputs.push_back(
        detail::as_strided(memory, shape_of(layout["shape"]), shape_of(layout["strides"]), layout["offset"]));
    if (layout["grad"]) inputs.back().set_requires_grad();
  }
  return inputs;
}

/// The gradients of the inputs that ask for one; without any where no result depends on them.
void differentiate(const std::vector<Tensor>& given, const std::string& name, const TensorMap& tensors,
                   const std::vector<Tensor>& results, TensorMap& out) {
  std::vector<Tensor> outputs, inputs;
  GradOptions options{.allow_unused = true};
  for (size_t i = 0; i < results.size(); ++i) {
    const auto cotangent = tensors.find(fmt::format("{}.cotangent{}", name, i));
    if (cotangent == tensors.end() || !results[i].requires_grad()) continue;
    outputs.push_back(results[i]);
    options.grad_outputs.push_back(cotangent->second);
  }
  for (const Tensor& input : given) {
    if (input.defined() && input.requires_grad()) inputs.push_back(input);
  }
  if (outputs.empty() || inputs.empty()) return;
  const std::vector<Tensor> gradients = grad(outputs, inputs, options);
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined()) out[fmt::format("{}.grad{}", name, i)] = gradients[i];
  }
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) throw std::invalid_argument("usage: linnet_cases CASES RESULTS");
  const Safetensors cases = read_safetensors(argv[1]);
  Safetensors out;
  for (const auto& [name, text] : cases.metadata) {
    const nlohmann::json description = nlohmann::json::parse(text);
    const std::vector<Tensor> inputs = inputs_of(name, cases.tensors, description["inputs"]);
    try {
      const std::vector<Tensor> results = peers::run(description["op"], inputs, description["arguments"]);
      for (size_t i = 0; i < results.size(); ++i) {
        out.tensors[fmt::format("{}.result{}", name, i)] = results[i].detach();
      }
      differentiate(inputs, name, cases.tensors, results, out.tensors);
    } catch (const Error& error) {
      out.metadata[name] = error.what();
    }
  }
  write_safetensors(argv[2], out);
} catch (const std::exception& error) {
  std::cerr << "linnet_cases: " << error.what() << "\n";
  return 1;
}
