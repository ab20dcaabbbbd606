#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <doctest/doctest.h>
#include <linnet/core/autograd/tape.h>
#include <linnet/ops/array/join.h>
#include <linnet/ops/array/math.h>
#include <linnet/ops/array/reduction.h>
#include <linnet/ops/attention/attention.h>
#include <linnet/ops/fastformer/fastformer.h>
#include <linnet/ops/fastmax/fastmax.h>

#include "tests/support/goldens.h"
#include "tests/support/near.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

Tensor run_softmax(const Golden& golden, const TensorMap& in) {
  return softmax_attention(in.at("query"), in.at("key"), in.at("value"),
                           {.causal = golden.parameters.at("causal"), .padding_mask = golden.get("key_mask")});
}

std::variant<FastmaxScale, double> scale_of(const Json& scale) {
  if (scale.is_number()) return scale.get<double>();
  const std::map<std::string, FastmaxScale> named{
      {"paper", FastmaxScale::paper}, {"sqrt", FastmaxScale::sqrt}, {"unit", FastmaxScale::unit}};
  return named.at(scale.get<std::string>());
}

Tensor run_fastmax(const Golden& golden, const TensorMap& in) {
  const Json& p = golden.parameters;
  std::array<double, 3> coefficients{};
  const auto given = p.at("coefficients").get<std::vector<double>>();
  std::copy(given.begin(), given.end(), coefficients.begin());
  const bool standard = p.at("normalisation") == "standard";
  return fastmax(in.at("query"), in.at("key"), in.at("value"),
                 {.coefficients = coefficients,
                  .normalisation = standard ? FastmaxNormalisation::standard : FastmaxNormalisation::none,
                  .scale = scale_of(p.at("scale")),
                  .causal = p.at("causal"),
                  .padding_mask = golden.get("key_mask")});
}

Tensor run_fastformer(const Golden& golden, const TensorMap& in) {
  const bool add = golden.parameters.at("interaction") == "add";
  return additive_attention({in.at("query"), in.at("key"), in.at("value")}, {{in.at("w_query")}, {in.at("w_key")}},
                            {.interaction = add ? Interaction::add : Interaction::product,
                             .causal = golden.parameters.at("causal"),
                             .padding_mask = golden.get("key_mask")});
}

double largest_weight(const Golden& golden) {
  double largest = 0;
  for (const char* name : {"w_query", "w_key"}) {
    largest = std::max(largest, max(abs(golden.get(name))).item<double>());
  }
  return largest;
}

/// Checks all gradients as one vector.
void check_gradients_together(const Golden& golden, const Tensor& output, const TensorMap& leaves, double bound) {
  std::vector<Tensor> inputs, actual, expected;
  for (const auto& [name, leaf] : leaves) {
    inputs.push_back(leaf);
    expected.push_back(golden.get("grad_" + name).flatten());
  }
  const Tensor cotangent = golden.get("grad_output").to(output.dtype());
  for (const Tensor& gradient : grad({output}, inputs, {.grad_outputs = {cotangent}})) {
    actual.push_back(gradient.flatten());
  }
  CHECK(relative_error(concat(actual), concat(expected).to_vector<double>()) < bound);
}

/// The relative error of an exponential is the error of its logit, which grows with the weights. Large weights also
/// saturate the softmax. Their gradient is then the small difference of terms as large as the other gradients, with
/// errors as large as theirs.
void compare_fastformer(const Golden& golden, DType dtype) {
  const double weight = largest_weight(golden);
  const double bound = error_bound(golden, dtype) * (dtype == DType::float32 ? std::max(weight, 1.0) : 1);
  const TensorMap leaves = golden.leaves(dtype);
  const Tensor output = run_fastformer(golden, leaves);
  if (weight < 10) {
    check_with_gradients(golden, output, leaves, bound);
  } else {
    check_near(golden, "output", output, bound);
    check_gradients_together(golden, output, leaves, bound);
  }
}

void compare_all(DType dtype) {
  compare_goldens("softmax", dtype, {{"softmax_attention", function_comparison(run_softmax)}});
  compare_goldens("fastmax", dtype, {{"fastmax_attention", function_comparison(run_fastmax)}});
  compare_goldens("fastformer", dtype, {{"fastformer_attention", compare_fastformer}});
}

}  // namespace

TEST_CASE("The attention ops agree with PyTorch, float64") { compare_all(DType::float64); }
TEST_CASE("The attention ops agree with PyTorch, float32") { compare_all(DType::float32); }
