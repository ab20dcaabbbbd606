#include <map>
#include <string>

#include <doctest/doctest.h>
#include <linnet/ops/layers/loss.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;

namespace {

Reduction reduction(const Golden& golden) {
  const std::map<std::string, Reduction> named{
      {"none", Reduction::none}, {"mean", Reduction::mean}, {"sum", Reduction::sum}};
  return named.at(golden.parameters.at("reduction_mode").get<std::string>());
}

Tensor run_cross_entropy(const Golden& golden, const TensorMap& in) {
  return cross_entropy(in.at("input"), golden.get("target"),
                       {.ignore_index = golden.parameters.at("ignore_index"),
                        .label_smoothing = golden.parameters.at("label_smoothing"),
                        .reduction = reduction(golden)});
}

Tensor run_mse(const Golden& golden, const TensorMap& in) {
  return mse_loss(in.at("input"), in.at("target"), reduction(golden));
}

Tensor run_binary_cross_entropy(const Golden& golden, const TensorMap& in) {
  const Tensor logits = in.at("input"), pos_weight = golden.get("pos_weight");
  return binary_cross_entropy_with_logits(logits, golden.get("target").to(logits.dtype()),
                                          pos_weight.defined() ? pos_weight.to(logits.dtype()) : pos_weight,
                                          reduction(golden));
}

const std::map<std::string, Comparison> kComparisons = {
    {"cross_entropy", function_comparison(run_cross_entropy)},
    {"mse_loss", function_comparison(run_mse)},
    {"binary_cross_entropy_with_logits", function_comparison(run_binary_cross_entropy)},
};

}  // namespace

TEST_CASE("The losses agree with PyTorch, float64") { compare_goldens("losses", DType::float64, kComparisons); }
TEST_CASE("The losses agree with PyTorch, float32") { compare_goldens("losses", DType::float32, kComparisons); }
