#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include <linnet/core/safetensors.h>
#include <linnet/core/tape.h>
#include <linnet/ops/attention.h>
#include <linnet/ops/fastformer.h>
#include <linnet/ops/fastmax.h>

#include "tests/ops/attention_reference.h"

using namespace linnet;
using namespace linnet::test;

namespace {

using Json = nlohmann::json;

/// One case of a golden file: tests/goldens/README.md says what it holds.
struct Golden {
  std::string name;
  Json parameters;
  TensorMap tensors;

  Tensor get(const std::string& tensor) const {
    const auto found = tensors.find(name + "." + tensor);
    return found == tensors.end() ? Tensor() : found->second;
  }
  std::vector<std::string> inputs() const {
    std::vector<std::string> names = {"query", "key", "value"};
    if (get("w_query").defined()) names.insert(names.end(), {"w_query", "w_key"});
    return names;
  }
};

std::vector<Golden> goldens(const std::string& file) {
  const Safetensors content =
      read_safetensors(std::string(LINNET_TEST_DATA "/goldens/") + file + ".safetensors");
  std::vector<Golden> all;
  for (const auto& [name, parameters] : content.metadata) {
    const Json json = Json::parse(parameters, nullptr, false);
    if (json.is_object() && json.contains("op")) all.push_back({name, json, content.tensors});
  }
  return all;
}

std::variant<FastmaxScale, double> scale_of(const Json& scale) {
  if (scale.is_number()) return scale.get<double>();
  const std::map<std::string, FastmaxScale> named{
      {"paper", FastmaxScale::paper}, {"sqrt", FastmaxScale::sqrt}, {"unit", FastmaxScale::unit}};
  return named.at(scale.get<std::string>());
}

Tensor run(const Golden& golden, const std::vector<Tensor>& in) {
  const Json& p = golden.parameters;
  const bool causal = p.at("causal").get<bool>();
  const Tensor keep = golden.get("key_mask");
  const auto op = p.at("op").get<std::string>();
  if (op == "softmax_attention")
    return softmax_attention(in[0], in[1], in[2], {.causal = causal, .keep = keep});
  if (op == "fastmax_attention") {
    std::array<double, 3> coefficients{};
    const auto given = p.at("coefficients").get<std::vector<double>>();
    std::copy(given.begin(), given.end(), coefficients.begin());
    const bool standard = p.at("normalisation") == "standard";
    return fastmax(in[0], in[1], in[2],
                   {.coefficients = coefficients,
                    .normalisation = standard ? FastmaxNormalisation::standard : FastmaxNormalisation::none,
                    .scale = scale_of(p.at("scale")),
                    .causal = causal,
                    .keep = keep});
  }
  const Interaction interaction = p.at("interaction") == "add" ? Interaction::add : Interaction::product;
  return additive_attention(in[0], in[1], in[2], in[3], in[4], {interaction, causal, keep});
}

/// The output, and all gradients together: where a softmax is saturated, the gradient of its logits' weights
/// is what is left of terms as large as the other gradients, and so are its errors.
void check(const Golden& golden, DType dtype, double bound) {
  CAPTURE(golden.name);
  std::vector<Tensor> inputs;
  for (const std::string& name : golden.inputs())
    inputs.push_back(golden.get(name).to(dtype).set_requires_grad());
  const Tensor output = run(golden, inputs);
  CHECK(relative_error(output, golden.get("output").to_vector<double>()) < bound);
  std::vector<double> gradients, expected;
  for (const Tensor& gradient :
       grad({output}, inputs, {.grad_outputs = {golden.get("grad_output").to(dtype)}})) {
    for (const double value : gradient.to_vector<double>()) gradients.push_back(value);
  }
  for (const std::string& name : golden.inputs()) {
    for (const double value : golden.get("grad_" + name).to_vector<double>()) expected.push_back(value);
  }
  CHECK(relative_error(gradients, expected) < bound);
}

}  // namespace

TEST_CASE("The attention ops agree with PyTorch, float64") {
  for (const char* file : {"softmax", "fastmax", "fastformer"}) {
    const std::vector<Golden> all = goldens(file);
    CHECK(all.size() >= 6);
    for (const Golden& golden : all) check(golden, DType::float64, 1e-9);
  }
}

TEST_CASE("The attention ops agree with PyTorch, float32") {
  for (const char* file : {"softmax", "fastmax", "fastformer"}) {
    for (const Golden& golden : goldens(file)) {
      // A rounding of each term; an exponential's relative error is its logit's, which grows with the
      // weights.
      double size = 1;
      for (const char* name : {"w_query", "w_key"}) {
        if (!golden.get(name).defined()) continue;
        for (const double w : golden.get(name).to_vector<double>()) size = std::max(size, std::abs(w));
      }
      check(golden, DType::float32, size * golden.parameters.at("reduction").get<double>() * 0x1p-24);
    }
  }
}
