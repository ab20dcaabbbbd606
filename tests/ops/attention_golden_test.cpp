#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <variant>

#include <doctest/doctest.h>
#include <linnet/ops/attention.h>
#include <linnet/ops/fastformer.h>
#include <linnet/ops/fastmax.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;
using Json = nlohmann::json;

namespace {

Tensor run_softmax(const Golden& golden, const TensorMap& in) {
  return softmax_attention(in.at("query"), in.at("key"), in.at("value"),
                           {.causal = golden.parameters.at("causal"), .keep = golden.get("key_mask")});
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
                  .keep = golden.get("key_mask")});
}

Tensor run_fastformer(const Golden& golden, const TensorMap& in) {
  const bool add = golden.parameters.at("interaction") == "add";
  return additive_attention(in.at("query"), in.at("key"), in.at("value"), in.at("w_query"), in.at("w_key"),
                            {.interaction = add ? Interaction::add : Interaction::product,
                             .causal = golden.parameters.at("causal"),
                             .keep = golden.get("key_mask")});
}

void compare_all(DType dtype) {
  compare_goldens("softmax", dtype, {{"softmax_attention", function_comparison(run_softmax)}});
  compare_goldens("fastmax", dtype, {{"fastmax_attention", function_comparison(run_fastmax)}});
  compare_goldens("fastformer", dtype, {{"fastformer_attention", function_comparison(run_fastformer)}});
}

}  // namespace

TEST_CASE("The attention ops agree with PyTorch, float64") { compare_all(DType::float64); }
TEST_CASE("The attention ops agree with PyTorch, float32") { compare_all(DType::float32); }
