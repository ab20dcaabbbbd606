#include <map>
#include <string>

#include <doctest/doctest.h>
#include <linnet/ops/layers/loss.h>

#include "tests/support/goldens.h"

using namespace linnet;
using namespace linnet::test;

namespace {

Reduction reduction(const Golden& golden) {
  const std::map<std::string, Reduction> named{{"none", Reduction::none},
                                               {"mean", Reduction::mean},
                                               {"sum", Reduction::sum},
                                               {"batchmean", Reduction::batchmean}};
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
  return binary_cross_entropy_with_logits(
      logits, golden.get("target").to(logits.dtype()),
      {.pos_weight = pos_weight.defined() ? pos_weight.to(logits.dtype()) : pos_weight,
       .reduction = reduction(golden)});
}

Tensor run_nll(const Golden& golden, const TensorMap& in) {
  const Tensor log_probs = in.at("input"), weight = golden.get("weight");
  return nll_loss(log_probs, golden.get("target"),
                  {.weight = weight.defined() ? weight.to(log_probs.dtype()) : weight,
                   .ignore_index = golden.parameters.at("ignore_index"),
                   .reduction = reduction(golden)});
}

Tensor run_l1(const Golden& golden, const TensorMap& in) {
  return l1_loss(in.at("input"), in.at("target"), reduction(golden));
}

// An option that a case leaves out keeps linnet's default, which must be PyTorch's.

Tensor run_huber(const Golden& golden, const TensorMap& in) {
  const Tensor input = in.at("input"), target = in.at("target");
  if (!golden.parameters.contains("delta")) return huber_loss(input, target, reduction(golden));
  return huber_loss(input, target, reduction(golden), golden.parameters.at("delta"));
}

Tensor run_smooth_l1(const Golden& golden, const TensorMap& in) {
  const Tensor input = in.at("input"), target = in.at("target");
  if (!golden.parameters.contains("beta")) return smooth_l1_loss(input, target, reduction(golden));
  return smooth_l1_loss(input, target, reduction(golden), golden.parameters.at("beta"));
}

Tensor run_kl_div(const Golden& golden, const TensorMap& in) {
  const Tensor input = in.at("input");
  const Tensor target = in.contains("target") ? in.at("target") : golden.get("target").to(input.dtype());
  return kl_div(input, target, reduction(golden), golden.parameters.at("log_target"));
}

Tensor run_gaussian_nll(const Golden& golden, const TensorMap& in) {
  return gaussian_nll_loss(
      in.at("input"), in.at("target"), in.at("var"),
      {.full = golden.parameters.at("full"), .eps = golden.parameters.at("eps"), .reduction = reduction(golden)});
}

Tensor run_hinge_embedding(const Golden& golden, const TensorMap& in) {
  const double margin = golden.parameters.value("margin", 1.0);
  return hinge_embedding_loss(in.at("input"), golden.get("target"), margin, reduction(golden));
}

Tensor run_cosine_embedding(const Golden& golden, const TensorMap& in) {
  const double margin = golden.parameters.value("margin", 0.0);
  return cosine_embedding_loss(in.at("x1"), in.at("x2"), golden.get("target"), margin, reduction(golden));
}

Tensor run_cosine_similarity(const Golden& golden, const TensorMap& in) {
  return cosine_similarity(in.at("x1"), in.at("x2"), golden.parameters.at("dim"));
}

const std::map<std::string, Comparison> kComparisons = {
    {"cross_entropy", function_comparison(run_cross_entropy)},
    {"mse_loss", function_comparison(run_mse)},
    {"binary_cross_entropy_with_logits", function_comparison(run_binary_cross_entropy)},
    {"nll_loss", function_comparison(run_nll)},
    {"l1_loss", function_comparison(run_l1)},
    {"huber_loss", function_comparison(run_huber)},
    {"smooth_l1_loss", function_comparison(run_smooth_l1)},
    {"kl_div", function_comparison(run_kl_div)},
    {"gaussian_nll_loss", function_comparison(run_gaussian_nll)},
    {"hinge_embedding_loss", function_comparison(run_hinge_embedding)},
    {"cosine_embedding_loss", function_comparison(run_cosine_embedding)},
    {"cosine_similarity", function_comparison(run_cosine_similarity)},
};

}  // namespace

TEST_CASE("The losses agree with PyTorch, float64") { compare_goldens("losses", DType::float64, kComparisons); }
TEST_CASE("The losses agree with PyTorch, float32") { compare_goldens("losses", DType::float32, kComparisons); }
